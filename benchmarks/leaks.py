"""Measure a long run: descriptors, threads, processes and memory after thousands of tests, some with a fault."""

from __future__ import annotations

from typing import Any

#: So many tests, and how often to look.
TESTS, EVERY = 5000, 500


def measure() -> list[dict[str, int]]:
    """One row for each look, of tests at two ranks; every hundredth test kills a rank, and a new world is made."""
    from conformance.ranks.client import Forkserver
    from tests.faults.held import held
    from tests.faults.running import new_pool, run

    rows: list[dict[str, Any]] = []
    with Forkserver() as forkserver, new_pool(forkserver) as pool:
        for number in range(1, TESTS + 1):
            fault = number % 100 == 50
            outcome = run(
                pool, "forward_exit_1" if fault else "Good", "test_fault" if fault else "test_calm", 2
            ).outcome
            if outcome != ("crash" if fault else "pass"):
                raise RuntimeError(f"test {number} gave {outcome}")
            if number % EVERY == 0:
                rows.append({"tests": number, **held(pool.group, forkserver)})
    return rows
