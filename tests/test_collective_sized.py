"""Collectives whose samples are made for a number of ranks: they are looked at, and called, in worlds of that size."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from conformance import GROUP, ConformanceError, Subject, check
from conformance.cli.commands import main
from conformance.core.errors import BAD_USAGE
from tests.correct._collectives import dense, gathered, summed


def exchanged(parts, group):
    """One part from each rank, for one to each."""
    sent = dense(torch.stack(parts))
    got = torch.empty_like(sent)
    dist.all_to_all_single(got, sent, group=group)
    return tuple(map(dense, got))


class Exchange(torch.autograd.Function):
    """A list with a tensor for each rank, and a result from each."""

    @staticmethod
    def forward(ctx, group, *parts):
        ctx.group = group
        return exchanged(parts, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return None, *exchanged(grads, ctx.group)


def one_for_each_rank():
    yield [torch.randn(2, dtype=torch.float64, requires_grad=True) for _ in range(dist.get_world_size())], GROUP


LIST = Subject(
    Exchange,
    spec="Collective",
    types="V, V -> V, V",
    inputs=one_for_each_rank,
    call=lambda function, parts, group: function.apply(group, *parts),
    ranks=(2,),
)
LIST_OF_ANOTHER_LENGTH = Subject(
    Exchange, spec="Collective", types="V, V -> V, V", inputs=one_for_each_rank, call=LIST.call, ranks=(3,)
)


@pytest.mark.parametrize("given", [(), ("-k", "test_gradients_are_those_owed"), ("--backend", "simulated")])
def test_a_list_as_long_as_the_world_is_looked_at_in_a_world_of_that_size(capsys, given):
    main(["run", "tests.test_collective_sized:LIST", "--ranks", "2", "--no-compile", *given])
    said = capsys.readouterr()
    assert (said.err, "nothing broken" in said.out or "conforms" in said.out) == ("", True)


def test_a_list_of_another_length_than_its_types_say_is_bad_usage(capsys):
    assert main(["run", "tests.test_collective_sized:LIST_OF_ANOTHER_LENGTH", "--ranks", "3"]) == BAD_USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert '"V, V -> V, V" names 2 arguments, but the call has 3; write one letter for each tensor' in said


def part_of_seven():
    yield torch.randn(-(-7 // dist.get_world_size()), dtype=torch.float64, requires_grad=True), GROUP


class SevenOfTheWorld(torch.autograd.Function):
    """Joins the parts of seven numbers, and adds their gradients up over all ranks, whatever the group."""

    @staticmethod
    def forward(ctx, part, group):
        ctx.group = group
        return torch.cat(gathered(part, group)).split([7, len(part) * dist.get_world_size(group) - 7])[0].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rank, size = dist.get_rank(ctx.group), dist.get_world_size(ctx.group)
        rows = -(-7 // size)
        padded = torch.nn.functional.pad(grad, (0, rows * size - 7))
        scale = dist.get_world_size() / size
        return scale * summed(padded, ctx.group)[rank * rows :][:rows], None


def test_a_sample_that_asks_for_the_size_is_made_anew_for_a_smaller_group():
    with pytest.raises(ConformanceError) as error:
        check(
            Subject(SevenOfTheWorld, spec="Collective", types="V -> R", inputs=part_of_seven),
            ranks=3,
            only="Collective.group.subgroup",
            strict=True,
        )
    assert "on rank 0 the gradient is 1.5 times the expected one" in " ".join(str(error.value).replace("|", "").split())
