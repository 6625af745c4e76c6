"""World sizes: how many ranks a test runs on."""

from __future__ import annotations

MOST_RANKS = 4096


def are_world_sizes(given: object) -> bool:
    """Whether something is a list of worlds that tests may run in.

    >>> are_world_sizes((2, 3)), are_world_sizes(2), are_world_sizes([0])
    (True, False, False)
    """
    if not isinstance(given, tuple | list) or not given:
        return False
    return all(type(size) is int and 1 <= size <= MOST_RANKS for size in given)
