"""Choose the device of a rank, and say what is missing if a world cannot have its devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from conformance.core.errors import UsageError
from conformance.core.worlds import SIMULATED
from conformance.ranks.hardware import Hardware

#: The first release of NCCL that knows NCCL_MULTI_RANK_GPU_ENABLE.
SHARES_GPUS = (2, 30)


def device_of(device: str, local_rank: int, count: int) -> str:
    """The device of one rank: ranks of one machine take its devices in turn.

    >>> device_of("cuda", 1, 2), device_of("cuda", 2, 2), device_of("cuda:1", 0, 2), device_of("cpu", 3, 0)
    ('cuda:1', 'cuda:0', 'cuda:1', 'cpu')
    """
    return device if ":" in device or not count else f"{device}:{local_rank % count}"


def identity_of_device(device: str, local_rank: int, identities: Sequence[str]) -> str:
    """Return the unique name of the device that a rank takes; empty if there is none.

    >>> [identity_of_device(device, 2, ["a", "b"]) for device in ("cuda", "cuda:1", "cuda:2")]
    ['a', 'b', '']
    """
    _, _, index = device.partition(":")
    if index:
        return identities[int(index)] if int(index) < len(identities) else ""
    return identities[local_rank % len(identities)] if identities else ""


def check_names(backend: str, device: str, hardware: Hardware) -> None:
    """Refuse a device or a backend that this PyTorch does not know.

    Raises:
        UsageError: with a line that lists what there is.
    """
    kind = device.partition(":")[0]
    if kind != "cpu" and kind not in hardware.accelerators:
        there = [name for name, each in hardware.accelerators.items() if each]
        known = ", ".join(dict.fromkeys(["cpu", *there, "emulated"]))
        raise UsageError(f"--device {device!r}: PyTorch knows no such device; there are {known}")
    if backend not in hardware.backends:
        raise UsageError(
            f"--backend {backend!r}: torch.distributed knows no such backend; there are "
            f"{', '.join([*hardware.built, SIMULATED])}"
        )


def missing(
    size: int,
    group: bool,
    *,
    backend: str,
    device: str,
    hardware: Hardware,
    places: Sequence[str],
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Say which devices a world lacks; empty if it lacks none.

    Args:
        size: number of ranks.
        group: whether they need a process group.
        backend: a backend of ``torch.distributed``.
        device: cpu, or a type of accelerator such as ``cuda``, perhaps with an index.
        hardware: what PyTorch has here.
        places: for each rank, the device that it takes: see :func:`identity_of_device`.
        environment: the variables, among them NCCL_MULTI_RANK_GPU_ENABLE.
    """
    kind, _, index = device.partition(":")
    carried = hardware.backends.get(backend, ())
    if group and kind not in carried:
        return f"{backend} does not support {kind} tensors; use --device {' or '.join(carried)}"
    if kind == "cpu":
        return "" if not group or backend in hardware.built else f"this PyTorch was built without {backend}"
    what = "GPU" if kind == "cuda" else f"{kind} device"
    there = len({place for place in places if place})
    if index and not all(places[:size]):
        return f"needs {device}, found {len(hardware.accelerators.get(kind, ()))} {what}s"
    if group and size > 1 and backend == "nccl" and not _shares(hardware, environment):
        if index:
            return f"NCCL needs a GPU for each of {size} ranks: give --device cuda"
        if len({place for place in places[:size] if place}) < size:
            return f"needs {size} {what}s, found {there}"
    if not all(places[:size]):
        return f"needs 1 {what}, found {there}"
    if group and backend not in hardware.built:
        return f"this PyTorch was built without {backend}"
    return ""


def missing_here(size: int, group: bool, *, backend: str, device: str, hardware: Hardware) -> str:
    """Say which devices a world on this machine lacks; empty if it lacks none.

    Raises:
        UsageError: PyTorch knows no such device or backend.
    """
    check_names(backend, device, hardware)
    own = hardware.accelerators.get(device.partition(":")[0], ())
    places = [identity_of_device(device, rank, own) for rank in range(size)]
    return missing(size, group, backend=backend, device=device, hardware=hardware, places=places)


def _shares(hardware: Hardware, environment: Mapping[str, str]) -> bool:
    """Tell whether several ranks may share one GPU."""
    return environment.get("NCCL_MULTI_RANK_GPU_ENABLE") == "1" and hardware.nccl[:2] >= SHARES_GPUS
