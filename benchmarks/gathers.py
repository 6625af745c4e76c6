"""The reference gather against the forms people use, forward and backward, and against the bare exchanges.

Every form runs in the same ranks, in turn, so that the machine's mood is the same for all of them.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.place import Place

SIZES = {"1 KiB": 256, "64 KiB": 16_384, "1 MiB": 262_144, "16 MiB": 4_194_304, "64 MiB": 16_777_216}
MEMORY = "peak memory"
COUNTS = {"1 KiB": 60, "64 KiB": 40, "1 MiB": 20, "16 MiB": 5, "64 MiB": 3}
#: With eight ranks on few cores large tensors take minutes: they are left out there (numbers of a tensor).
MOST_AT = {8: 262_144}


def measure(worlds: tuple[int, ...], place: Place, sizes: Sequence[str]) -> list[dict[str, Any]]:
    """Seconds a form takes on the slowest rank, as medians, and as shares of the ksuit form's; its peak memory."""
    import torch.multiprocessing as mp

    sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
    from check import free_port

    found = []
    for world in worlds:
        manager = mp.get_context("spawn").Manager()
        results = manager.dict()
        mp.spawn(_on_rank, (world, free_port(), results, place, sizes), nprocs=world)
        found += _joined(dict(results), world)
        manager.shutdown()
    return found


def _joined(results: dict[Any, list[float]], world: int) -> list[dict[str, Any]]:
    rows = []
    for label, form in dict.fromkeys((label, form) for _, label, form in results if form != MEMORY):
        memory = {rank: dict(results[rank, label, MEMORY]) for rank in range(world)}
        times = [max(step) for step in zip(*(results[rank, label, form] for rank in range(world)), strict=True)]
        base = [max(step) for step in zip(*(results[rank, label, "ksuit form"] for rank in range(world)), strict=True)]
        shares = [own / other for own, other in zip(times, base, strict=True)]
        rows.append(
            {
                "world": world,
                "size": label,
                "form": form,
                "milliseconds": round(1000 * statistics.median(times), 3),
                "share": round(statistics.median(shares), 3),
                "least": round(min(shares), 3),
                "most": round(max(shares), 3),
                "runs": len(times),
                "peak_mib": round(max(own[form] for own in memory.values()), 2),
            }
        )
    return rows


def _on_rank(rank: int, world: int, port: int, results: Any, place: Place, sizes: Sequence[str]) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    warnings.simplefilter("ignore")
    import torch

    sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "peers")]
    from check import join

    torch.set_num_threads(1)
    device = place.enter(rank)
    join(rank, world, port, place.backend)
    for label, numbers in SIZES.items():
        if label not in sizes or numbers > MOST_AT.get(world, numbers):
            continue
        forms = {name: once for name, once in _forms(numbers, rank, world, device).items() if _is_supported(once)}
        times: dict[str, list[float]] = {name: [] for name in forms}
        for _ in range(2 if numbers <= SIZES["1 MiB"] else 1):
            for once in forms.values():
                _timed(once, place)
        for _ in range(COUNTS[label]):
            for name, once in forms.items():
                times[name].append(_timed(once, place))
        for name, own in times.items():
            results[rank, label, name] = own
        results[rank, label, MEMORY] = [(name, _peak(once, place)) for name, once in forms.items()]
    torch.distributed.destroy_process_group()


def _is_supported(once: Callable[[], object]) -> bool:
    """Whether the backend has the exchanges that a form is made of."""
    try:
        once()
    except RuntimeError as error:
        if "does not support" not in str(error):
            raise
        return False
    return True


def _timed(once: Callable[[], object], place: Place) -> float:
    import torch.distributed as dist

    dist.barrier()
    place.wait()
    start = time.perf_counter()
    once()
    place.wait()
    return time.perf_counter() - start


def _peak(once: Callable[[], object], place: Place) -> float:
    """By how much memory grows while a form runs: the most of two calls."""
    import torch.distributed as dist

    grown = []
    for _ in range(2):
        dist.barrier()
        grown.append(place.growth(once))
    return max(grown)


def _forms(numbers: int, rank: int, world: int, device: str) -> dict[str, Callable[[], object]]:
    import torch
    import torch.distributed as dist
    from ksuit_form import AllGatherGradAutograd as Ksuit

    from spec_impl.ksuit import AllGatherGradAutograd, AllGatherGradAutogradSeparate

    x = torch.randn(numbers, generator=torch.Generator().manual_seed(rank)).to(device).requires_grad_()
    weights = [torch.randn(numbers).to(device) for _ in range(world)]

    def both(gather: Callable[[torch.Tensor], Any]) -> Callable[[], object]:
        def run() -> object:
            outputs = gather(x)
            return torch.autograd.grad(outputs, x, weights)

        return run

    def functional(value: torch.Tensor) -> Any:
        from torch.distributed import _functional_collectives as collectives

        joined = collectives.all_gather_tensor_autograd(value, 0, dist.group.WORLD)
        return list(joined.chunk(world))

    def nn(value: torch.Tensor) -> Any:
        from torch.distributed.nn.functional import all_gather

        return all_gather(value)

    received = torch.empty(world * numbers, device=device)
    sent = torch.cat(weights)
    parts = [torch.empty(numbers, device=device) for _ in range(world)]
    detached = x.detach()

    def two_exchanges() -> object:
        dist.all_to_all_single(received, sent)
        return dist.all_to_all_single(received, sent)

    def bare_collectives() -> object:
        dist.all_gather(parts, detached)
        return dist.reduce_scatter(parts[0], weights)

    return {
        "ksuit form": both(Ksuit.apply),
        "reference": both(AllGatherGradAutograd.apply),
        "reference, separate form": both(AllGatherGradAutogradSeparate.apply),
        "torch.distributed.nn": both(nn),
        "all_gather_tensor_autograd": both(functional),
        "bare: all-gather, reduce-scatter": bare_collectives,
        "bare: two all-to-all": two_exchanges,
    }
