"""What PyTorch's distributed debugging says of collectives that did not match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.core.outcomes import RankOutcome


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
