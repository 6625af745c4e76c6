"""Keep the forkserver of one check for the next: importing torch takes longer than most checks."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from conformance.core.errors import UsageError
from conformance.ranks.client import Forkserver
from conformance.ranks.limits import Limits, limits_of

#: Variables that change between calls and do not matter to a rank: pytest names the current test in one.
PASSING = {"PYTEST_CURRENT_TEST"}


@dataclass(frozen=True)
class Surroundings:
    """What ranks inherit from the process that started their forkserver; a fork of that process counts as another."""

    pid: int
    folder: str
    variables: dict[str, str]
    limits: Limits | None

    @classmethod
    def now(cls) -> Surroundings:
        """Return the state of this process."""
        try:
            folder = os.getcwd()
        except FileNotFoundError:  # it was deleted
            folder = ""
        variables = {name: value for name, value in os.environ.items() if name not in PASSING}
        return cls(os.getpid(), folder, variables, limits_of(0))


_keeping = threading.Lock()
#: None while a check uses it: a check in another thread starts another. Read and written under the lock.
_kept: tuple[Surroundings, Forkserver] | None = None


@contextmanager
def kept_forkserver() -> Iterator[Forkserver]:
    """Return the forkserver of the previous run if this run can use it, or a new one.

    It is kept for the next run. It ends with this process, or if a run ends badly.
    """
    around = Surroundings.now()
    forkserver = _taken(around) or Forkserver()
    clean = False
    try:
        yield forkserver
        clean = True
    except UsageError:  # ended in order: no message is in transit to or from the forkserver
        clean = True
        raise
    finally:
        if clean and forkserver.rest():
            _keep((around, forkserver))
        else:
            forkserver.close()


def _taken(around: Surroundings) -> Forkserver | None:
    before = _exchanged(None)
    if before is None:
        return None
    surroundings, forkserver = before
    if surroundings == around and forkserver.process.poll() is None:
        forkserver.wake()
        return forkserver
    _drop(before)
    return None


def _keep(kept: tuple[Surroundings, Forkserver] | None) -> None:
    """Keep this forkserver, or none, and end the one that was kept before."""
    before = _exchanged(kept)
    if before is not None:
        _drop(before)


def _exchanged(kept: tuple[Surroundings, Forkserver] | None) -> tuple[Surroundings, Forkserver] | None:
    global _kept
    with _keeping:
        before, _kept = _kept, kept
    return before


def _drop(kept: tuple[Surroundings, Forkserver]) -> None:
    surroundings, forkserver = kept
    if surroundings.pid == os.getpid():
        forkserver.close()
    else:
        forkserver.socket.close()  # our copy; the forkserver belongs to the process that we were forked from


atexit.register(_keep, None)
