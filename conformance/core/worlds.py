"""World sizes: how many ranks a test runs on."""

from __future__ import annotations


def are_world_sizes(given: object) -> bool:
    """Whether something is a list of worlds that a subject may be judged in.

    >>> are_world_sizes((2, 3)), are_world_sizes(2), are_world_sizes([0])
    (True, False, False)
    """
    return isinstance(given, tuple | list) and bool(given) and all(type(size) is int and size > 0 for size in given)
