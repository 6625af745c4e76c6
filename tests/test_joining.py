"""From ranks to one outcome: no rank is overlooked, and the one that broke decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import conformance
from conformance.core.joining import join, joined
from conformance.core.outcomes import OUTCOMES, RankOutcome, TestOutcome
from tests.made_up import GATHER, outcome, plan

SUM = f"{GATHER}.backward.sum"
WAITED = RankOutcome(0, "timeout", "was still running after another rank failed", bystander=True)
RAISED = RankOutcome(1, "error", "ValueError: not today")


@pytest.mark.parametrize("word", OUTCOMES)
@pytest.mark.parametrize("guilty", [0, 1, 2])
def test_one_rank_decides_wherever_it_stands(word, guilty):
    """PyTorch's own MultiProcessTestCase looks at rank 0 alone."""
    others = "not-applicable" if word == "not-applicable" else "pass"
    ranks = [RankOutcome(rank, word if rank == guilty else others) for rank in range(3)]
    assert join(ranks, 3)[0] == word


def test_ranks_that_disagree_on_whether_a_clause_applies_are_an_error():
    outcome, message = join([RankOutcome(0, "pass"), RankOutcome(1, "not-applicable")], 2)
    assert (outcome, message) == (
        "error",
        "ranks disagree on whether the clause applies: rank 0 pass, rank 1 not-applicable",
    )


def test_a_rank_that_waits_for_one_where_the_clause_does_not_apply_is_not_late():
    late, left = RankOutcome(0, "timeout", collectives=("all_gather",)), RankOutcome(1, "not-applicable", "refused")
    outcome, message = join([late, left], 2)
    assert (outcome, "rank 0 timeout, rank 1 not-applicable" in message) == ("error", True)
    assert join([replace(late, collectives=()), left], 2)[0] == "timeout", "it waited for nobody"


def test_a_rank_that_waits_for_one_that_call_left_accuses_nobody():
    late, why = RankOutcome(0, "timeout", collectives=("all_gather",)), "call= raises outside of F: ValueError: no"
    left = RankOutcome(1, "not-applicable", why)
    assert join([late, left], 2) == ("not-applicable", f"rank 1 of 2: {why}")
    assert join([replace(late, collectives=()), left], 2)[0] == "timeout", "it waited for nobody"


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (("all_reduce(2 float32) among ranks 0", "all_reduce(2 float32)"), True),
        (("all_reduce(2 float32) among ranks 0", "all_reduce(2 float32) among ranks 0"), False),
        (("all_reduce(2 float32)", "all_reduce(2 float32)"), False),
        ((), False),
    ],
)
def test_a_group_that_is_not_passed_on_is_named_where_ranks_hang(calls, said):
    late = [RankOutcome(0, "timeout", bystander=True, collectives=calls), RankOutcome(1, "timeout")]
    assert ("pass `group=` there too" in joined(plan(SUM), late, 0.5).likely) is said
    assert not joined(plan(SUM), [replace(rank, outcome="pass") for rank in late], 0.5).likely


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([("all_reduce(2 float32)",), ()], "rank 1 left out all_reduce, in which rank 0 waited"),
        ([("all_reduce(2 float32)",), (), ()], "ranks 1, 2 left out all_reduce, in which rank 0 waited"),
        (
            [("all_gather(2 float32)",) * 2, ("all_gather(2 float32)",)],
            "rank 1 left out all_gather, in which rank 0 waited",
        ),
        (
            [("all_to_all_single(3 int64, 2 int64)",) * 2, ("all_to_all_single(2 int64, 3 int64)",)],
            "rank 1 left out all_to_all_single, in which rank 0 waited",
        ),
        ([("all_reduce(2 float32)",), ("all_gather(2 float32)",)], ""),
        ([("all_reduce(2 float32)",), ("all_reduce(2 float32)",)], ""),
        ([("send([2 float32])",), ()], ""),
        ([("all_reduce(2 float32) among ranks 0",), ()], ""),
        ([(), ()], ""),
    ],
)
def test_who_leaves_out_a_collective_is_named_where_others_wait_in_it(calls, said):
    late = [RankOutcome(rank, "timeout", collectives=called) for rank, called in enumerate(calls)]
    assert joined(plan(SUM), late, 0.5).likely == said
    assert not joined(plan(SUM), [replace(rank, outcome="fail") for rank in late], 0.5).likely


IN_TORCH = '  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3 in all_reduce\n'
IN_THE_SUITE = f'  File "{Path(conformance.__file__).parent}/ranks/channel.py", line 7 in receive\n'
OWN = '  File "/home/me/layers.py", line 13 in forward\n'


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        (IN_TORCH + OWN + IN_TORCH, " in which rank 0 waited at layers.py:13, in forward"),
        (OWN, " in which rank 0 waited at layers.py:13, in forward"),
        (IN_THE_SUITE + IN_TORCH, " in which rank 0 waited"),
        ("", " in which rank 0 waited"),
    ],
)
def test_where_the_others_wait_is_the_line_that_a_rank_never_reached(stack, said):
    waits = RankOutcome(0, "timeout", bystander=True, collectives=("all_reduce([2 float32])",), stack=stack)
    assert joined(plan(SUM), [waits, RankOutcome(1, "timeout", stack=IN_THE_SUITE)], 0.5).likely.endswith(said)


IN_PAIRS = [
    ("reduce([2 float32]) among ranks 0,1", "all_reduce([2 float32]) among ranks 0,2"),
    ("reduce([2 float32]) among ranks 0,1",),
    ("all_reduce([2 float32]) among ranks 0,2",),
]


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([("all_reduce([2 float32])",), ("barrier()",)], "collectives differ at number 1: rank 0 called all_reduce"),
        ([("send([2 float32])",), ("recv([2 float32])",)], ""),
        (
            [("send([2 float32])",), ()],
            "collectives differ at number 1: rank 0 called send([2 float32]); rank 1 called",
        ),
        (
            [("send([2 float32])", "barrier()"), ("recv([2 float32])",)],
            "collectives differ at number 1: rank 0 called barrier(); rank 1 called nothing more",
        ),
        (IN_PAIRS, ""),
        (
            [*IN_PAIRS[:2], ()],
            "collectives among ranks 0,2 differ at number 1: rank 0 called all_reduce([2 float32]) among ranks 0,2; "
            "rank 2 called nothing more",
        ),
    ],
)
def test_the_ranks_of_each_group_are_compared_with_one_another(calls, said):
    broken = [RankOutcome(rank, "fail", "x", collectives=called) for rank, called in enumerate(calls)]
    told = joined(plan(SUM), broken, 0.5).message
    assert said in told if said else "differ" not in told


def test_ranks_outside_a_group_leave_nothing_out_that_is_called_in_it():
    late = [RankOutcome(rank, "timeout", collectives=calls) for rank, calls in enumerate([("barrier()",), ()])]
    told = joined(plan("Collective.group.subgroup"), late, 0.5).likely
    assert told == (
        "rank 1 left out barrier, in which rank 0 waited; it is of the default group: in a call with another, pass "
        "`group=` there"
    )


@pytest.mark.parametrize("word", ["pass", "not-applicable"])
@pytest.mark.parametrize("heard", [(), (0,), (1,), (0, 0), (0, 2)])
def test_what_some_rank_never_said_is_an_error(word, heard):
    assert join([RankOutcome(rank, word) for rank in heard], 3)[0] == "error"


def test_a_rank_that_ended_is_named_before_those_that_lost_their_connection_to_it():
    ended = RankOutcome(1, "error", "the suite's own code on this rank raised OSError", exitcode=70)
    lost = RankOutcome(0, "error", "RuntimeError: Connection closed by peer")
    assert join([lost, ended], 2)[1].startswith("rank 1 of 2: the suite's own code")


def test_the_rank_that_broke_decides_the_word_and_is_named_first():
    found = joined(plan(SUM), [WAITED, RAISED], 0.5)
    assert found.outcome == "error"
    assert found.message.startswith("rank 1 of 2: ValueError: not today")
    assert found.ranks == (WAITED, RAISED)


ASSERTED = RankOutcome(0, "fail", "gradient of x\nactual:   1\nexpected: 2")


@pytest.mark.parametrize("word", ["error", "timeout"])
def test_an_assertion_that_failed_is_told_before_what_else_befell_another_rank(word):
    told = joined(plan(SUM), [replace(RAISED, outcome=word), replace(ASSERTED, rank=0)], 0.5)
    assert told.outcome == word
    assert told.message == ("rank 0 of 2: gradient of x\nactual:   1\nexpected: 2\nrank 1 of 2: ValueError: not today")


def test_a_crash_is_told_before_an_assertion_that_failed_elsewhere():
    crashed = RankOutcome(1, "crash", "killed by SIGSEGV")
    told = joined(plan(SUM), [ASSERTED, crashed], 0.5).message
    assert told.startswith("rank 1 of 2: killed by SIGSEGV\nrank 0 of 2: gradient of x\n")


def test_where_all_waited_their_word_counts():
    assert join([WAITED, replace(WAITED, rank=1)], 2)[0] == "timeout"


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        {"nodeid": "a", "outcome": "passed", "seconds": 1.0},
        {"nodeid": "a", "outcome": "pass", "seconds": -1},
        {"nodeid": "a", "outcome": "pass", "seconds": float("nan")},
        {"nodeid": "a", "outcome": ["pass"], "seconds": 1},
        {"nodeid": "a", "outcome": "pass", "seconds": 1, "ranks": [{"rank": "0", "outcome": "pass"}]},
    ],
)
def test_what_is_no_outcome_is_refused(data):
    with pytest.raises(ValueError, match=r"Expected|Invalid|missing"):
        TestOutcome.from_json(data)


def test_an_outcome_survives_as_text_whatever_a_subject_printed():
    given = outcome(SUM, "fail", message="\ud800\x00\u202e")
    assert given.to_text().isascii()
    assert TestOutcome.from_text(given.to_text()) == given
