"""``python -m benchmarks.many_ranks``: forked ranks from 2 to 64, and the post between launched processes.

Ranks: seconds until a world is ready; seconds, messages and bytes of one gather test; memory of a rank. Post: what one
test costs in the launcher's store when every rank has a launched process of its own; all but the first are threads that
answer at once. Writes ``docs/data/many-ranks.json``; ``python -m benchmarks.page`` draws the page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.measure import ROOT, Figure, machine
from conformance.core import catalog, clauses
from conformance.core.outcomes import RankOutcome
from conformance.core.plan import PlannedTest, SubjectRef, plan
from conformance.ranks import channel, process
from conformance.ranks.client import Forkserver
from conformance.ranks.cluster.group import ClusterGroup, LaunchedProcess, post_outcome
from conformance.ranks.cluster.store import Launch, Post, connect
from conformance.ranks.pool import Pool
from conformance.ranks.settings import Settings
from conformance.ranks.starter import Key

DATA = ROOT / "docs" / "data" / "many-ranks.json"
SIZES = (2, 4, 8, 16, 32, 64)
KEY = b"for this benchmark alone"
POSTS = (*SIZES, 128, 256)
SUITE = ROOT / "benchmarks" / "suite"
SUBJECT = "spec_impl.ksuit:AllGatherGradAutograd"


class Traffic:
    """Counts the frames between the controller and its ranks, both ways."""

    def __init__(self) -> None:
        self.frames = 0
        self.bytes = 0
        pack, take = channel.pack, process.RankProcess._take

        def packed(message: dict[str, Any]) -> bytes:
            self.frames += 1
            frame = pack(message)
            self.bytes += len(frame)
            return frame

        def taken(own: process.RankProcess, message: dict[str, Any]) -> None:
            self.frames += 1
            self.bytes += len(pack(message))
            take(own, message)

        channel.pack = packed
        process.RankProcess._take = taken  # type: ignore[method-assign]


def item_for(size: int) -> PlannedTest:
    """One gather test in a world of some size."""
    (test,) = catalog.suite(SUITE)
    test = replace(test, module="test_bench_gather", cases=((("number", 0),),))
    named = SubjectRef(SUBJECT, "AllGatherGradAutograd", None, SUBJECT)
    return next(item for item in plan([test], clauses.registry(), [named], (size,)) if item.size == size)


def ranks(forkserver: Forkserver, size: int, rounds: int, traffic: Traffic) -> dict[str, Any]:
    """One row of the table."""
    pool = Pool(forkserver, Settings(path=(str(SUITE), str(ROOT))))
    item = item_for(size)
    ready, seconds = [], []
    for _ in range(max(1, rounds // 4)):
        start = time.perf_counter()
        pool._replace(Key(item.subject, size, True))
        ready.append(time.perf_counter() - start)
    pool.run(item)  # the first one imports the test
    before = traffic.frames, traffic.bytes
    for _ in range(rounds):
        start = time.perf_counter()
        outcome = pool.run(item)
        seconds.append(time.perf_counter() - start)
        assert outcome.outcome == "pass", outcome.message
    assert pool.group is not None
    memory = [mebibytes(one.pid) for one in pool.group.ranks]
    row = {
        "ranks": size,
        "ready": Figure.of(ready).to_json(),
        "test": Figure.of(seconds).to_json(),
        "messages": round((traffic.frames - before[0]) / rounds, 1),
        "bytes": round((traffic.bytes - before[1]) / rounds),
        "shared_mib": round(sum(pss for pss, _ in memory) / size, 1),
        "private_mib": round(sum(private for _, private in memory) / size, 1),
    }
    pool.close()
    return row


def mebibytes(pid: int) -> tuple[float, float]:
    """A process's proportional and its private memory."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        kib = {name: int(number) for name, number in re.findall(r"(\w+):\s+(\d+) kB", file.read())}
    return kib["Pss"] / 1024, (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024


def post(forkserver: Forkserver, size: int, rounds: int, port: int) -> dict[str, Any]:
    """The store's part of one test: the first launched process has a real rank; the others are threads that answer."""
    leading = Post(connect(Launch(0, size, 0, "127.0.0.1", port)), KEY, "bench/")
    followers = [Post(connect(Launch(rank, size, 0, "127.0.0.1", port)), KEY, "bench/") for rank in range(1, size)]
    threads = [threading.Thread(target=follow, args=(one, rank)) for rank, one in enumerate(followers, 1)]
    for thread in threads:
        thread.start()
    opening = {"size": size, "backend": "gloo", "device": "cpu", "group": False, "debug": False}
    world = ClusterGroup(forkserver, LaunchedProcess(0, 0, size, leading, machines=("one",) * size), 1, opening)
    world.request(None, 30)
    message = {"op": "load", "path": [], "subject": None, "spec": None, "inputs": None, "payload": ""}
    before = (leading.messages, sum(one.messages for one in followers))
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        world.request(message, 30)
        seconds.append(time.perf_counter() - start)
    counted = (leading.messages - before[0], sum(one.messages for one in followers) - before[1])
    world.close()
    for thread in threads:
        thread.join()
    return {
        "ranks": size,
        "test": Figure.of(seconds).to_json(),
        "of_the_first": round(counted[0] / rounds, 1),
        "of_each_other": round(counted[1] / rounds / (size - 1), 2),
    }


def follow(own: Post, rank: int) -> None:
    """Answer every request at once."""
    own.read("world/1")
    number = 1
    while own.read(f"order/1/{number}") is not None:
        post_outcome(own, f"1/{number}", rank, RankOutcome(rank, "pass"))
        number += 1


def slope(rows: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> dict[str, float]:
    """A straight line through the rows by least squares: what one more rank costs, and what is there without any."""
    xs, ys = [row["ranks"] for row in rows], [value(row) for row in rows]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    each = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    return {"each": round(each, 6), "at_none": round(mean_y - each * mean_x, 6)}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_ranks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--port", type=int, default=29_600)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    traffic, forkserver = Traffic(), Forkserver()
    forkserver.wait()
    rows = [ranks(forkserver, size, arguments.rounds, traffic) for size in SIZES]
    posts = [post(forkserver, size, arguments.rounds, arguments.port + place) for place, size in enumerate(POSTS)]
    forkserver.close()
    slopes = {
        "ready seconds": slope(rows, lambda row: row["ready"]["least"]),
        "test seconds": slope(rows, lambda row: row["test"]["least"]),
        "messages": slope(rows, lambda row: row["messages"]),
        "store messages": slope(posts, lambda row: row["of_the_first"] + row["of_each_other"] * (row["ranks"] - 1)),
        "store seconds": slope(posts, lambda row: row["test"]["least"]),
    }
    data = {"machine": machine(), "ranks": rows, "post": posts, "slopes": slopes}
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    for row in (*rows, *posts, slopes):
        print(row)


if __name__ == "__main__":
    main()
