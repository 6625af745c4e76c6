"""Runs one test of the suite, whose sources are in this script, on ranks of its own."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from conformance.reproduce.pieces.planned import (
    ARGUMENTS,
    BACKEND,
    CASE,
    DEVICE,
    GROUP,
    HANGS,
    INPUTS,
    SIZE,
    SPEC,
    SUBJECT,
    TEST,
    TIMEOUT,
    TYPES,
)
from conformance.reproduce.pieces.sources import Sources

#: How long ranks may take to start and import torch (seconds): no part of the test's own limit.
START = 300.0
#: How long other ranks may take to come to where one is that raised, before they count as waiting elsewhere (seconds).
ALONE = min(10.0, TIMEOUT / 2)
BROKEN, UNFINISHED = 1, 2


def taken(rank: int) -> str:
    """The device of a rank, made the current one."""
    if DEVICE == "cpu":
        return DEVICE
    if DEVICE.startswith("emulated"):
        from conformance.emulated import build, load

        load(build())
    device = DEVICE if ":" in DEVICE else f"{DEVICE}:{rank % torch.accelerator.device_count()}"
    torch.accelerator.set_device_index(torch.device(device).index)
    return device


def rank_main(rank: int, port: int, status: Any, begun: Any) -> None:
    """One rank: the test with its arguments, and what came of it."""
    device = taken(rank)
    sys.meta_path.insert(0, Sources())
    sys.path.insert(0, os.getcwd())
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    from conformance.kit.deviations import NotApplicable
    from conformance.kit.world import LeftAlone, World

    store = dist.TCPStore("127.0.0.1", port)
    count = 0

    def exchange(value: Any, raised: bool = False) -> list[Any]:
        nonlocal count
        count += 1
        store.set(f"{count}/{rank}", json.dumps(value))
        limit = time.monotonic() + ALONE
        while raised and not store.check([f"{count}/{other}" for other in range(SIZE)]):
            if time.monotonic() > limit:
                raise LeftAlone
            time.sleep(0.05)
        return [json.loads(store.get(f"{count}/{other}")) for other in range(SIZE)]

    if GROUP:
        dist.init_process_group(BACKEND, store=dist.PrefixStore("group", store), rank=rank, world_size=SIZE)
    try:
        offered: dict[str, Any] = {"world": World(rank=rank, size=SIZE, device=device, exchange=exchange), **CASE}
        if "in_a_copy" in ARGUMENTS:
            from conformance.kit.process.copies import in_a_copy

            offered["in_a_copy"] = in_a_copy
        if SUBJECT:
            from conformance.kit.loading import resolve

            offered["subject"] = resolve(SUBJECT, SPEC, INPUTS, TYPES)
        body = getattr(importlib.import_module(TEST[0]), TEST[1])
        torch.manual_seed(0)
        begun[rank] = 1
        body(**{name: offered[name] for name in ARGUMENTS})
        said: object = "in order"
    except NotApplicable as error:
        said = f"says nothing here: {error}"
    except AssertionError as error:
        said, status[rank] = error, BROKEN
    except BaseException:
        said, status[rank] = traceback.format_exc(), BROKEN if begun[rank] else UNFINISHED
    print(f"rank {rank} of {SIZE}: {said}", flush=True)
    exchange(None)  # no rank leaves while another still needs it
    os._exit(0)  # threads of the group run on, and an interpreter that ends around them may abort


def main() -> int:
    """Start the ranks, and give them until the test's limit, counted from when all have begun."""
    spawn = mp.get_context("spawn")
    status, begun = spawn.Array("i", SIZE), spawn.Array("i", SIZE)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    workers = mp.spawn(rank_main, args=(store.port, status, begun), nprocs=SIZE, join=False)
    limit, started, ended = time.monotonic() + START, False, False
    while not ended and time.monotonic() < limit:
        if not started and all(begun[:]):
            started, limit = True, time.monotonic() + TIMEOUT
        if BROKEN in status[:]:  # the others may have something to say, or wait for this one without end
            limit = min(limit, time.monotonic() + ALONE)
        ended = workers.join(timeout=0.2)  # True once all have ended; one that did is no reason to stop
    for process in workers.processes:
        if process.is_alive():
            process.kill()
    if ended or any(status[:]):
        return BROKEN if BROKEN in status[:] else max(status[:], default=0)
    print("not every rank came to its end")
    return BROKEN if HANGS and started else UNFINISHED


if __name__ == "__main__":
    try:
        ending = main()
    except Exception:  # a rank crashed: where the suite saw the same, that is the bug
        traceback.print_exc()
        ending = BROKEN if HANGS else UNFINISHED
    sys.exit(ending)
