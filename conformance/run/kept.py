"""The forkserver of one check is kept for the next: importing torch takes longer than many a check."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from conformance.core.errors import UsageError
from conformance.ranks.client import Forkserver
from conformance.ranks.limits import Limits, limits_of

#: Variables that change from call to call and mean nothing to a rank: pytest says in one which test it is at.
PASSING = {"PYTEST_CURRENT_TEST"}


@dataclass(frozen=True)
class Surroundings:
    """What ranks have from the process that started their forkserver; a fork of that process is another one."""

    pid: int
    folder: str
    variables: dict[str, str]
    limits: Limits | None

    @classmethod
    def now(cls) -> Surroundings:
        """Those of this process."""
        try:
            folder = os.getcwd()
        except FileNotFoundError:  # somebody has removed it
            folder = ""
        variables = {name: value for name, value in os.environ.items() if name not in PASSING}
        return cls(os.getpid(), folder, variables, limits_of(0))


_keeping = threading.Lock()
#: At most one, which is not here while a check uses it: a check in another thread starts its own.
_kept: list[tuple[Surroundings, Forkserver]] = []


@contextmanager
def kept_forkserver() -> Iterator[Forkserver]:
    """The forkserver of the run before where it is still good for this one, or a new one.

    It stays for the next run and ends with this process, or when a run comes to no good end.
    """
    around = Surroundings.now()
    forkserver = _taken(around) or Forkserver()
    clean = False
    try:
        yield forkserver
        clean = True
    except UsageError:  # said in order: nothing is on its way to or from the forkserver
        clean = True
        raise
    finally:
        if clean and forkserver.rest():
            with _keeping:
                _close_kept()
                _kept.append((around, forkserver))
        else:
            forkserver.close()


def _taken(around: Surroundings) -> Forkserver | None:
    with suppress(IndexError):
        before, forkserver = _kept.pop()
        if before == around and forkserver.process.poll() is None:
            forkserver.wake()
            return forkserver
        if before.pid == around.pid:
            forkserver.close()
        else:
            forkserver.socket.close()  # our copy of it: the forkserver is that of the process that we were forked from
    return None


def _close_kept() -> None:
    with suppress(IndexError):
        before, forkserver = _kept.pop()
        if before.pid == os.getpid():
            forkserver.close()


atexit.register(_close_kept)
