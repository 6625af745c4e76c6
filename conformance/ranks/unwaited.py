"""Detect a missing wait(): a failed test runs again with every collective ended before it returns."""

from __future__ import annotations

import contextlib
import functools
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch.distributed as dist

from conformance.core.disagreement import METHODS, POINT_TO_POINT

#: How long a send or a receive may take, which ends when the other rank has issued its own (seconds).
MOMENT = 0.005


class Work:
    """Collectives that were started, and which of them were waited for."""

    def __init__(self) -> None:
        self._running: dict[int, weakref.ref[Any]] = {}
        self._dropped = 0

    def started(self, work: Any) -> None:
        """Record the work that a collective returned."""
        key = id(work)
        self._running[key] = weakref.ref(work, lambda _: self._gone(key))

    def waited_for(self, work: Any) -> None:
        """Record that it is waited for."""
        self._running.pop(id(work), None)

    def _gone(self, key: int) -> None:
        self._dropped += self._running.pop(key, None) is not None

    @property
    def is_left(self) -> bool:
        """Tell whether some of it was never waited for."""
        return bool(self._dropped or self._running)


@contextlib.contextmanager
def ended_at_once() -> Iterator[Work]:
    """End every collective of the block before the call that starts it returns."""
    known, wait = Work(), dist.Work.wait

    def waiting(work: Any, *args: Any, **options: Any) -> Any:
        known.waited_for(work)
        return wait(work, *args, **options)

    with contextlib.ExitStack() as undo:
        undo.enter_context(patch.object(dist.Work, "wait", waiting))
        for name in METHODS:
            if hasattr(dist.ProcessGroup, name):
                ending = _ending(getattr(dist.ProcessGroup, name), name, wait, known)
                undo.enter_context(patch.object(dist.ProcessGroup, name, ending))
        yield known


def _ending(function: Callable[..., Any], name: str, wait: Callable[..., Any], known: Work) -> Callable[..., Any]:
    @functools.wraps(function)
    def ending(*args: Any, **options: Any) -> Any:
        work = function(*args, **options)
        if isinstance(work, dist.Work):
            known.started(work)
            if name in POINT_TO_POINT:
                time.sleep(MOMENT)
            else:
                wait(work)
        return work

    return ending
