"""Explain a failure after a second run: on fresh ranks, without overlap, or with PyTorch's debugging."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from conformance.core.outcomes import RankOutcome, TestOutcome
from conformance.core.plan import PlannedTest

#: Files of PyTorch's compiler that are on a stack while it compiles, but not while compiled code runs.
#: A long stack may be cut; these files of the compiler are near its top.
_COMPILING = re.compile(
    r"/torch/(?:_dynamo/(?!eval_frame|external_utils)|_functorch/_aot_autograd/|_inductor/"
    r"|_subclasses/(?:fake|functional)_tensor|fx/experimental/(?:proxy_tensor|symbolic_shapes))"
)
STILL_COMPILING = (
    "not finished: PyTorch was still compiling when the deadline passed; "
    "raise --timeout, or leave the compiler out with --no-compile"
)


def still_compiling(item: PlannedTest, outcomes: Sequence[RankOutcome]) -> bool:
    """Tell whether a rank reached its deadline while PyTorch was compiling, which says nothing about the subject."""
    late = [outcome for outcome in outcomes if outcome.outcome == "timeout" and not outcome.bystander]
    return item.test.compiles and any(_COMPILING.search(outcome.stack) for outcome in late)


def due_to(cause: str, outcome: TestOutcome) -> TestOutcome:
    """Attribute an outcome to a cause: without it the test passes. Other likely causes are dropped."""
    message = outcome.message
    for guess in {outcome.likely, *(rank.likely for rank in outcome.ranks)}:
        message = message.replace(f"\nlooks like: {guess}", "")
    ranks = (
        replace(rank, likely="", message=rank.message.removesuffix(f"\nlooks like: {rank.likely}"))
        for rank in outcome.ranks
    )
    return replace(outcome, likely=cause, message=message, ranks=tuple(ranks))


def annotated(outcomes: Sequence[RankOutcome], again: Sequence[RankOutcome]) -> list[RankOutcome]:
    """Add to outcomes the message of each rank when the test ran again with debugging on."""
    said = {outcome.rank: _mismatch(outcome.message) for outcome in again}
    return [_annotated(outcome, said.get(outcome.rank, "")) for outcome in outcomes]


def _mismatch(message: str) -> str:
    """Return the line in which PyTorch's debugging names collectives that do not match."""
    lines = message.splitlines()
    return next((line for line in lines if "mismatch" in line.lower() or "Detected" in line), "")


def _annotated(outcome: RankOutcome, said: str) -> RankOutcome:
    if not said:
        return outcome
    return replace(outcome, message=f"{outcome.message}\nwith TORCH_DISTRIBUTED_DEBUG=DETAIL: {said}")
