"""Three ranks over Gloo for tests of collectives: each runs the same function, in a group of some of the ranks."""

from __future__ import annotations

import atexit
import functools
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.typed_values import Ranks
from tests.emulated.processes import FORKED

SIZE = 3
#: A group of every kind: the world, the first two, two without rank 0, a single rank, and another order.
GROUPS = ((0, 1, 2), (0, 1), (1, 2), (2,), (2, 0))


class World:
    """The ranks, until closed."""

    def __init__(self) -> None:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.pipes, self.ranks = [], []
        for rank in range(SIZE):
            here, there = FORKED.Pipe()
            process = FORKED.Process(target=_serve, args=(rank, store.port, there), daemon=True)
            process.start()
            self.pipes.append(here)
            self.ranks.append(process)
        self.store = store

    def run(self, body: Callable[..., Any], members: Sequence[int], *args: Any) -> list[Any]:
        """Call ``body(ranks, group, *args)`` on the ranks of a group; what each returned, in the group's order."""
        for member in members:
            self.pipes[member].send((body, tuple(members), args))
        told = [self.pipes[member].recv() for member in members]
        for member, (ended, value) in zip(members, told, strict=True):
            assert ended == "returned", f"rank {member} raised\n{value}"
        return [value for _, value in told]

    def close(self) -> None:
        """End the ranks."""
        for pipe, process in zip(self.pipes, self.ranks, strict=True):
            pipe.close()
            process.join(10)
            process.kill()


@functools.cache
def world() -> World:
    """One world for all tests of this process: starting it takes longer than most of them."""
    made = World()
    atexit.register(made.close)
    return made


def _serve(rank: int, port: int, pipe: Any) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=SIZE, timeout=timedelta(seconds=30))
    groups, others = ({m: dist.new_group(list(m), sort_ranks=False) for m in GROUPS} for _ in range(2))
    while True:
        try:
            body, members, args = pipe.recv()
        except EOFError:
            return
        other = others[members]
        ranks = Ranks(members.index(rank), len(members), lambda value, other=other: _exchanged(value, other))
        try:
            pipe.send(("returned", body(ranks, groups[members], *args)))
        except Exception:
            pipe.send(("raised", traceback.format_exc()))


def _exchanged(value: Any, group: Any) -> list[Any]:
    everyones = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyones, value, group=group)
    return everyones
