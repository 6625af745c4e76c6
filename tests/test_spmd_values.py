"""What ranks hold: the same for R and I, each its own for V and P, close to the sample and known to every rank."""

from __future__ import annotations

import pytest
import torch

from conformance.core.signatures import Type
from conformance.kit.typed_values import Ranks, argument, cotangent, reshared

SAMPLES = {
    "positive": torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) + 0.1,
    "complex": torch.complex(torch.arange(1.0, 5.0), torch.arange(4.0)),
    "bfloat16": torch.linspace(1, 2, 5).to(torch.bfloat16),
    "0-d": torch.tensor(2.0, dtype=torch.float64),
    "zeros": torch.zeros(3),
    "whole numbers": torch.arange(5),
    "bool": torch.tensor([True, False, False]),
    "transposed": torch.arange(1.0, 7.0).reshape(2, 3).t(),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("kind", [Type.R, Type.I])
def test_every_rank_holds_the_sample(kind, name):
    for rank in range(3):
        assert torch.equal(argument(kind, SAMPLES[name], rank), SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("kind", [Type.V, Type.P])
def test_every_rank_holds_its_own_and_rank_0_the_sample(kind, name):
    held = [argument(kind, SAMPLES[name], rank) for rank in range(3)]
    assert torch.equal(held[0], SAMPLES[name])
    assert not torch.equal(held[0], held[1])
    assert not torch.equal(held[1], held[2])
    assert {(x.shape, x.dtype) for x in held} == {(SAMPLES[name].shape, SAMPLES[name].dtype)}
    assert torch.equal(held[2], argument(kind, SAMPLES[name], 2))


def test_values_stay_where_the_sample_was():
    sample = SAMPLES["positive"] * torch.tensor([1.0, -1.0, 0.0, 1.0])
    for rank in range(5):
        held = argument(Type.V, sample, rank)
        assert torch.equal(held.sign(), sample.sign())
        assert ((held - sample).abs() <= 0.26 * sample.abs()).all()


def test_two_arguments_of_one_rank_vary_on_their_own():
    one, other = (argument(Type.V, SAMPLES["positive"], 1, at) for at in range(2))
    assert not torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("size", [2, 3])
def test_shares_change_on_every_rank_and_their_sum_does_not(size, dtype):
    before = [torch.full((3,), rank + 1.0, dtype=dtype) for rank in range(size)]
    after = [reshared(share, rank, size) for rank, share in enumerate(before)]
    assert torch.allclose(sum(after), sum(before))
    assert all((new != old).all() for new, old in zip(after, before, strict=True))


@pytest.mark.parametrize("wanted", [True, False])
def test_a_gradient_is_asked_for_where_the_sample_asks(wanted):
    sample = torch.ones(2, requires_grad=wanted)
    assert all(argument(kind, sample, rank).requires_grad == wanted for kind in Type for rank in range(2))


@pytest.mark.parametrize("kind", Type)
def test_cotangents_differ_where_each_rank_has_a_loss_of_its_own(kind):
    y = torch.zeros(2, 3, dtype=torch.complex128)
    first, second = (cotangent(kind, y, rank, 0) for rank in range(2))
    assert (first.shape, first.dtype) == (y.shape, y.dtype)
    assert torch.equal(first, second) == (kind in (Type.I, Type.P))


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([float("nan"), -0.0, float("inf")]),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([0.1, 3.0]).to(torch.bfloat16),
        torch.tensor([[True], [False]]),
        torch.tensor(5),
        torch.empty(0, 3),
    ],
    ids=str,
)
def test_tensors_are_told_to_others_bit_for_bit(value):
    ((told,),) = Ranks(0, 1, lambda plain: [plain]).tensors([value])
    assert (told.shape, told.dtype) == (value.shape, value.dtype)
    bits = [x.resolve_conj().contiguous().view(-1).view(torch.uint8).tolist() for x in (told, value) if x.numel()]
    assert bits[:1] == bits[1:]
