"""Simulated worlds beside others: processor time of a gather, how soon a hang is proved, and one whole contract.

``python -m benchmarks.simulated HARNESS RANKS STEPS`` prints the milliseconds of processor time of one gather, forward
and backward, on all ranks together. Each harness is a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.measure import ROOT, Figure, figures, in_turn

OURS, ALONE = "simulated ranks", "arithmetic alone"
WORLDS = (2, 4, 8, 16)
#: How many gathers are timed, on all ranks together, and how many go before them.
STEPS, WARM = 1600, 5
#: One class by the contract of collectives, in four worlds, without the compiler.
CONTRACT = (
    *("-m", "conformance", "run", "spec_impl.ksuit:AllGatherGradAutograd", "--spec", "Collective"),
    *("--types", "V -> R", "--inputs", "benchmarks.subjects:gather_samples", "--ranks", "2,3,4,8"),
    *("--backend", "simulated", "--no-compile"),
)
Step = Callable[[], object]


def measure(rounds: int) -> dict[str, Any]:
    """Milliseconds of each harness and world, and their ratio to the arithmetic; hangs; seconds of the contract."""
    rows = []
    for world in WORLDS:
        runs: dict[str, list[float]] = {name: [] for name in HARNESSES}
        for _ in range(rounds):
            for name, times in runs.items():
                times.append(_elsewhere(name, world))
        for name, times in runs.items():
            ratios = [own / alone for own, alone in zip(times, runs[ALONE], strict=True)]
            cell = {"harness": name, "world": world}
            rows.append({**cell, "cpu_ms": Figure.of(times).to_json(), "ratio": Figure.of(ratios).to_json()})
    hangs = [{"world": world, "ms": Figure.of([proved(world) for _ in range(rounds)]).to_json()} for world in WORLDS]
    taken = in_turn({"import torch": [sys.executable, "-c", "import torch"], OURS: [sys.executable, *CONTRACT]}, rounds)
    contract = {name: figure.to_json() for name, figure in figures(taken).items()}
    return {"gathers": rows, "hangs": hangs, "contract": contract}


def _elsewhere(harness: str, world: int) -> float:
    words = [sys.executable, "-m", "benchmarks.simulated", harness, str(world), str(STEPS // world)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def proved(world: int) -> float:
    """Milliseconds from the start of a body, in which rank 1 leaves out a barrier, until its outcomes are there."""
    import torch.distributed as dist

    from conformance.ranks.simulated.simulation import Simulation

    with Simulation(world) as simulation:
        simulation.run(lambda _: dist.barrier())
        start = time.perf_counter()
        outcomes = simulation.run(lambda each: each.rank == 1 or dist.barrier())
        taken = time.perf_counter() - start
    if "no rank can ever go on" not in outcomes[0].message:
        sys.exit(f"no hang was proved: {outcomes[0]}")
    return 1000 * taken


def _form() -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
    from ksuit_form import AllGatherGradAutograd

    return AllGatherGradAutograd


def step_of(rank: int, own: Any = None) -> Step:
    """Make one gather of three numbers, forward and backward."""
    import torch

    gather = _form()
    x = (torch.arange(3, dtype=torch.float64) + rank if own is None else own).requires_grad_()

    def step() -> object:
        entries = gather.apply(x)
        cotangents = [torch.full_like(one, (rank + 1.0) * (at + 1)) for at, one in enumerate(entries)]
        return torch.autograd.grad(entries, [x], cotangents)

    return step


def repeated(step: Step, steps: int) -> float:
    """Run a step many times; seconds of processor time of this process, the first few left out."""
    for _ in range(WARM):
        step()
    start = time.process_time()
    for _ in range(steps):
        step()
    return time.process_time() - start


def simulated(world: int, steps: int) -> float:
    """Seconds on ranks that this package simulates."""
    from conformance.ranks.simulated.simulation import Simulation

    with Simulation(world) as simulation:
        simulation.run(lambda each: step_of(each.rank)())  # the first backward imports modules, for all harnesses alike

        def body(each: Any) -> float:
            return repeated(step_of(each.rank), steps)

        return _of_all(simulation.run, body)


def _of_all(run: Callable[[Callable[[Any], object]], object], body: Callable[[Any], float]) -> float:
    """The time of one body on ranks that share a process: from the first's start to the last's end."""
    start: list[float] = []

    def timed(each: Any) -> None:
        start.append(time.process_time())
        body(each)

    run(timed)
    return time.process_time() - start[0]


def alone(world: int, steps: int) -> float:
    """Seconds of the same copies and sums in one thread, one rank after the other, with no rank to wait for."""
    from unittest import mock

    import torch
    import torch.distributed as dist

    def all_gather(places: Sequence[torch.Tensor], x: torch.Tensor) -> None:
        for place in places:
            place.copy_(x)

    def all_reduce(tensor: torch.Tensor, op: object) -> None:
        total = tensor.clone()
        for _ in range(world - 1):
            total += tensor
        tensor.copy_(total)

    turns = [step_of(rank) for rank in range(world)]
    words = {"all_gather": all_gather, "all_reduce": all_reduce}
    with mock.patch.multiple(dist, **words, get_rank=lambda: 0, get_world_size=lambda: world):
        return repeated(lambda: [step() for step in turns], steps)


def threaded(world: int, steps: int) -> float:
    """Seconds on PyTorch's group of threads, which MultiThreadedTestCase uses."""
    import torch.distributed as dist
    from torch.testing._internal.common_distributed import MultiThreadedTestCase

    class Case(MultiThreadedTestCase):
        """One test, whose body all threads run."""

        @property
        def world_size(self) -> int:
            """The number of ranks."""
            return world

        def setUp(self) -> None:
            """Start the threads."""
            super().setUp()
            self._spawn_threads()

        def test_gather(self) -> None:
            """Gather."""
            dist.barrier()
            took.append(repeated(step_of(self.rank), steps))

    took: list[float] = []
    case = Case("test_gather")
    case.debug()
    return max(took)


def gloo(world: int, steps: int) -> float:
    """Seconds on processes with Gloo, added up."""
    import torch.multiprocessing as mp

    from benchmarks.peers.check import free_port

    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(_on_gloo, (world, free_port(), steps, queue), nprocs=world)
    return float(sum(queue.get() for _ in range(world)))


def _on_gloo(rank: int, world: int, port: int, steps: int, queue: Any) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    dist.barrier()
    queue.put(repeated(step_of(rank), steps))
    dist.destroy_process_group()


def local(world: int, steps: int) -> float:
    """Seconds under LocalTensorMode, in which one tensor holds those of all ranks."""
    import torch
    import torch.distributed as dist
    from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    with LocalTensorMode(world):
        own = {rank: torch.arange(3, dtype=torch.float64) + rank for rank in range(world)}
        return repeated(step_of(0, LocalTensor(own)), steps)


HARNESSES: dict[str, Callable[[int, int], float]] = {
    ALONE: alone,
    OURS: simulated,
    "MultiThreadedTestCase": threaded,
    "LocalTensorMode": local,
    "Gloo": gloo,
}


def main() -> int:
    """Time one harness."""
    import torch

    torch.set_num_threads(1)
    name, world, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(1000 * HARNESSES[name](world, steps) / steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
