"""What is said of a failure once it was looked at again: on fresh ranks, without overlap, or by PyTorch's debugging."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from conformance.core.outcomes import RankOutcome, TestOutcome
from conformance.core.plan import PlannedTest

#: Files of PyTorch's compiler that are on a stack while it compiles, and not while what it made is running.
#: Of a long stack, not all may be there: what the compiler traces with is nearer to the top than itself.
_COMPILING = re.compile(
    r"/torch/(?:_dynamo/(?!eval_frame|external_utils)|_functorch/_aot_autograd/|_inductor/"
    r"|_subclasses/(?:fake|functional)_tensor|fx/experimental/(?:proxy_tensor|symbolic_shapes))"
)
STILL_COMPILING = (
    "not finished: PyTorch was still compiling when the deadline passed; "
    "raise --timeout, or leave the compiler out with --no-compile"
)


def still_compiling(item: PlannedTest, outcomes: Sequence[RankOutcome]) -> bool:
    """Whether a rank was out of time because the compiler is slow, which says nothing about what it compiles."""
    late = [outcome for outcome in outcomes if outcome.outcome == "timeout" and not outcome.bystander]
    return item.test.compiles and any(_COMPILING.search(outcome.stack) for outcome in late)


def due_to(cause: str, outcome: TestOutcome) -> TestOutcome:
    """The outcome of a test that passes where this cause is taken away. What its ranks took for the cause is none."""
    message = outcome.message
    for guess in {outcome.likely, *(rank.likely for rank in outcome.ranks)}:
        message = message.replace(f"\nlooks like: {guess}", "")
    ranks = (
        replace(rank, likely="", message=rank.message.removesuffix(f"\nlooks like: {rank.likely}"))
        for rank in outcome.ranks
    )
    return replace(outcome, likely=cause, message=message, ranks=tuple(ranks))


def annotated(outcomes: Sequence[RankOutcome], again: Sequence[RankOutcome]) -> list[RankOutcome]:
    """Outcomes with what each rank said when the test was run again with that debugging on."""
    said = {outcome.rank: _mismatch(outcome.message) for outcome in again}
    return [_annotated(outcome, said.get(outcome.rank, "")) for outcome in outcomes]


def _mismatch(message: str) -> str:
    """The line in which PyTorch's debugging names collectives that do not match."""
    lines = message.splitlines()
    return next((line for line in lines if "mismatch" in line.lower() or "Detected" in line), "")


def _annotated(outcome: RankOutcome, said: str) -> RankOutcome:
    if not said:
        return outcome
    return replace(outcome, message=f"{outcome.message}\nwith TORCH_DISTRIBUTED_DEBUG=DETAIL: {said}")
