"""Samples for Functions of a tensor and a process group, such as the reference collectives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.kit.process_groups import GROUP
from conformance.kit.specs import random


def tensor_and_group() -> Iterator[tuple[Any, ...]]:
    """A matrix whose rows can be divided among 1, 2, 3, 4 or 6 ranks, and the group."""
    yield random((12, 2), 600), GROUP


def source_and_group() -> Iterator[tuple[Any, ...]]:
    """A matrix, the source or target rank, and the group."""
    yield random((3, 2), 610), 0, GROUP
