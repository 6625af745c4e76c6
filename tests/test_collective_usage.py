"""What is said where types, samples or inputs of a collective do not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from conformance import GROUP, ConformanceError, Subject, check
from conformance.cli.commands import main
from conformance.core.errors import BAD_USAGE, UsageError
from conformance.core.options import RunOptions
from conformance.kit.samples import UNLIKE
from tests.correct import collective as right
from tests.one_gradient import gradient_of, matrix

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ("V=>R", '"V=>R" has no arrow; write "V -> R"'),
        (
            "V, V -> R",
            'collective:Copy: "V, V -> R" names 2 arguments, but the call has 1; '
            'write one letter for each tensor: "V -> R"',
        ),
        (3, 'types are text such as "V, R -> V, I", not 3'),
    ],
)
def test_bad_types_are_said_before_anything_runs(types, said):
    with pytest.raises(UsageError) as error:
        check(right.Copy, (matrix(), GROUP), spec="Collective", types=types, ranks=2)
    assert said in str(error.value)


ONE_RESULT = '"I -> R, R" names 2 results, but the call has 1; write one letter for each tensor: "I -> R"'


def test_types_that_name_more_results_than_come_are_said_before_anything_is_judged():
    with pytest.raises(UsageError) as error:
        check(right.Copy, (matrix(), GROUP), spec="Collective", types="I -> R, R", ranks=2)
    assert str(error.value) == f"tests.correct.collective:Copy in a world of 2 ranks: {ONE_RESULT}"


class PartsOfAll(right.Copy):
    """A tensor from every rank, each of them a result."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return tuple(parts)


def test_types_are_those_of_the_worlds_that_a_subject_is_judged_in():
    subject = Subject(
        PartsOfAll, spec="Collective", types="V -> R, R", inputs=lambda: iter([(matrix(), GROUP)]), ranks=(2,)
    )
    report = check(subject, ranks=2, only="Collective.forward.one-rank")
    clause = report.subjects[0].clause("Collective.forward.one-rank")
    assert clause.verdict == "not-applicable"
    assert clause.reason == "it is judged with 2 ranks only"


def test_a_command_with_types_that_name_more_results_than_come_is_bad_usage(tmp_path, capsys, monkeypatch):
    (tmp_path / "layers.py").write_text(
        "from conformance import GROUP, Subject\n"
        "from tests.correct.collective import Copy, inputs\n"
        "COPY = Subject(Copy, spec='Collective', types='I -> R, R', inputs=inputs)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert main(["run", "layers:COPY", "--ranks", "2"]) == BAD_USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert f"layers:COPY in a world of 2 ranks: {ONE_RESULT}" in " ".join(said.err.split())


def test_what_raises_in_a_call_is_no_matter_of_its_types():
    with pytest.raises(ConformanceError, match="no copies today"):
        gradient_of(NeverCopies, types="I -> R, R")


class NeverCopies(torch.autograd.Function):
    """Raises on one rank alone, before any collective."""

    @staticmethod
    def forward(ctx, x, group):
        if torch.distributed.get_rank() == 1:
            raise ValueError("no copies today")
        torch.distributed.all_reduce(x.clone(), group=group)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def test_bad_types_on_the_command_line():
    with pytest.raises(UsageError, match='write "V -> R"'):
        RunOptions(subjects=("a:b",), spec="Collective", types="v -> r").checked()


def test_types_belong_to_collectives():
    with pytest.raises(UsageError, match="types are for spec Collective, not for spec Function"):
        check(right.Copy, (matrix(), GROUP), types="I -> R")


def test_a_collective_needs_samples():
    with pytest.raises(UsageError, match="needs sample inputs"):
        check(right.Copy, spec="Collective", types="I -> R")


def only_on_the_first_rank():
    """What torch.distributed.scatter takes: something on one rank, and nothing on the others."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    yield None if rank else matrix(), GROUP


def test_samples_that_some_ranks_lack_accuse_nobody():
    with pytest.raises(ConformanceError) as error:
        check(Subject(right.Copy, "Collective", inputs=only_on_the_first_rank, types="I -> R"), ranks=2)
    (subject,) = error.value.report.subjects
    assert subject.verdict == "incomplete"
    assert {test.reason for clause in subject.clauses for test in clause.tests if test.outcome == "skip"} == {UNLIKE}


def rows_by_rank():
    yield torch.randn(1 + dist.get_rank(), 2, dtype=torch.float64, requires_grad=True), GROUP


@pytest.mark.parametrize(
    ("types", "status", "said"),
    [("V -> R", 1, "nothing broken"), ("V, V -> R", 4, 'names 2 arguments, but the call has 1; .* "V -> R"')],
)
def test_inputs_on_the_command_line_may_ask_for_their_rank(monkeypatch, capfd, types, status, said):
    monkeypatch.chdir(ROOT)
    words = ("--spec", "Collective", "--types", types, "--inputs", "tests.test_collective_usage:rows_by_rank")
    few = ("--ranks", "2", "-k", "gradients_are_those_owed")
    assert main(("run", "tests.correct.collective_shapes:GatherOfUnevenRows", *words, *few)) == status
    assert re.search(said, "".join(capfd.readouterr()))


def test_inputs_of_a_spec_that_does_not_gather_have_no_rank_to_ask_for(monkeypatch, capfd):
    monkeypatch.chdir(ROOT)
    named = "tests.test_collective_usage:rows_by_rank"
    assert main(("run", "tests.correct.collective_shapes:GatherOfUnevenRows", "--inputs", named)) == BAD_USAGE
    assert "GatherOfUnevenRows raise ValueError: Default process group" in capfd.readouterr().err


def test_types_that_do_not_fit_inputs_that_ask_for_their_rank_are_told_at_once():
    with pytest.raises(UsageError, match=r'names 2 arguments, but the call has 1; .* "V -> R"'):
        check(Subject(right.Copy, spec="Collective", types="V, V -> R", inputs=rows_by_rank), ranks=2)


class Exchange(torch.autograd.Function):
    """Sends as many rows to every rank."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        found = torch.empty_like(x, memory_format=torch.contiguous_format)
        dist.all_to_all_single(found, x.contiguous(), group=group)
        return found

    @staticmethod
    def backward(ctx, grad):
        return Exchange.apply(grad, ctx.group), None


def test_rows_for_each_rank_are_fewer_in_a_smaller_group():
    """Sixteen rows cannot be dealt to three ranks."""
    x = torch.randn(16, 3, dtype=torch.float64, requires_grad=True)
    clause = "Collective.group.subgroup"
    report = check(Exchange, (x, GROUP), spec="Collective", types="V -> V", ranks=4, simulated=True, only=clause)
    assert report.subjects[0].clause(clause).verdict == "pass"
