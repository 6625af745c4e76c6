"""Follow the first launched process: keep a rank, and carry out the orders of the first process."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.core.output import complain
from conformance.ranks.client import Forkserver
from conformance.ranks.cluster import net
from conformance.ranks.cluster.group import LaunchedProcess, answer
from conformance.ranks.cluster.leader import facts
from conformance.ranks.cluster.store import GATHER_LIMIT, Launch, LeaderSilent, Post, connect
from conformance.ranks.settings import search_path


def follow(launch: Launch, setup: Sequence[str], library: Path | None = None) -> int:
    """Follow until the first process ends the run; return the exit status.

    Args:
        launch: which of the launched processes this is.
        setup: what this process's ranks call before any subject is imported, from its own command line.
        library: the library of the emulated device, if ranks need it.
    """
    own = {"path": search_path(), "setup": list(setup), "payload": ""}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing here needs cleaning up
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process gets the signal too, and ends the run in order
    forkserver = Forkserver(library)
    try:
        store = connect(launch)
        net.end_when_silent(launch.host, launch.port, launch.size)
        forkserver.wait()
        launched = join(launch, store, facts(launch, forkserver))
        for epoch in itertools.count(1):
            opening = launched.post.await_order(f"world/{epoch}")
            if "end" in opening:
                forkserver.close()
                launched.post.count("gone", 1)
                return int(opening["end"])
            if launch.rank < opening["size"]:
                answer(forkserver, launched, opening, own)
    except RuntimeError as error:  # of the store, or of the forkserver
        complain(f"rank {launch.rank}: {str(error).splitlines()[0]}")
    finally:
        forkserver.close()
    return 1


def join(launch: Launch, store: Any, own: dict[str, Any]) -> LaunchedProcess:
    """Register with the first launched process of this attempt, not with one of an earlier attempt."""
    public = Post(store, launch.key)
    token, post = "", public
    end = time.monotonic() + 2 * GATHER_LIMIT  # the first process itself waits this long
    while True:
        if time.monotonic() > end:
            raise LeaderSilent(f"the first process has not been heard of for {2 * GATHER_LIMIT:g} s")
        if public.has("leader") and (now := public.read("leader")) != token:
            token, post = now, Post(store, launch.key, f"{now}/")
            post.put(f"hello/{launch.rank}", own)
            post.count("there", 1)
        if token and post.has("welcome") and post.read("welcome")[launch.rank] == own["nonce"]:
            break
        time.sleep(0.05)
    address = own["address"]
    return replace(
        LaunchedProcess(launch.rank, launch.local_rank, launch.size, post),
        address=address,
        interface=net.interface_of(address),
    )
