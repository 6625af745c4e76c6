"""The rules that several methods of ctx share: at most once, and only while forward or setup_context runs."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.kit import expect
from conformance.kit.watched import Look, judged
from conformance.kit.witness import EARLY, Call, Step


def steps(looks: list[Look], method: str, phases: tuple[str, ...] | None = None) -> Iterator[tuple[Look, Call, Step]]:
    """Every call of one method of ctx that was seen, in these phases if any are given."""
    for look in looks:
        for call in look.witness.calls:
            for step in call.of(method):
                if phases is None or step.phase in phases:
                    yield look, call, step


def at_most_once(looks: list[Look], method: str, why: str) -> None:
    """Hold every call of the Function to one call of the method while forward and setup_context run."""
    for look in judged(looks):
        for call in look.witness.calls:
            early = [step for step in call.of(method) if step.phase in EARLY]
            expect.that(
                len(early) <= 1,
                f"calls of {method} in one call of {call.function.__name__}, {look.case.label}",
                f"{len(early)}, from {', '.join(step.phase for step in early)}",
                "at most 1",
                why,
            )


def only_early(looks: list[Look], method: str) -> None:
    """Hold every call of the method to come from forward or setup_context."""
    for look, call, step in steps(looks, method):
        expect.that(
            step.phase in EARLY,
            f"where {call.function.__name__} calls {method}, {look.case.label}",
            "outside of the Function's methods" if step.phase == "outside" else step.phase,
            "forward or setup_context",
            "too late to have an effect" if step.phase != "outside" else "",
        )
    list(judged(looks))
