"""One forkserver for many runs in this process: importing torch takes longer than what each of them is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.ranks import strays
from conformance.ranks.client import Forkserver
from conformance.run import session


class Lent(Forkserver):
    """Ends its ranks, and not itself, when a run closes it."""

    def close(self) -> None:
        self.rest()


@contextmanager
def one_forkserver() -> Iterator[None]:
    """Runs of this process take their ranks from one, which stands in the folder that is current now."""
    lent = Lent()

    def lend(library: Path | None = None) -> Forkserver:
        if library is not None:
            return Forkserver(library)
        if lent.process.pid in strays.AT_REST:
            lent.wake()
        return lent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "Forkserver", lend)
        try:
            yield
        finally:
            Forkserver.close(lent)
