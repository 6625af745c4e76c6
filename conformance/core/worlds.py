"""World sizes: how many ranks a test runs on."""

from __future__ import annotations

import re

from conformance.core.errors import UsageError

MOST_RANKS = 4096
#: The backend of worlds whose ranks are threads of one process; ``simulated:7`` draws their order from a seed.
SIMULATED = "simulated"


def are_world_sizes(given: object) -> bool:
    """Tell whether a value is a list of world sizes that tests may run in.

    >>> are_world_sizes((2, 3)), are_world_sizes(2), are_world_sizes([0])
    (True, False, False)
    """
    if not isinstance(given, tuple | list) or not given:
        return False
    return all(type(size) is int and 1 <= size <= MOST_RANKS for size in given)


def is_simulated(backend: str) -> bool:
    """Tell whether a backend simulates its ranks.

    >>> is_simulated("simulated:7"), is_simulated("gloo")
    (True, False)
    """
    return backend.partition(":")[0] == SIMULATED


def seed_of(backend: str) -> int | None:
    """Return the seed for the order of simulated ranks, or None for the fixed order.

    >>> seed_of("simulated:7"), seed_of("simulated")
    (7, None)

    Raises:
        UsageError: the seed is not a number.
    """
    _, drawn, seed = backend.partition(":")
    if drawn and not re.fullmatch(r"[0-9]{1,9}", seed):
        raise UsageError(f"--backend {backend!r}: give the seed of a schedule as a number, as in simulated:7")
    return int(seed) if drawn else None
