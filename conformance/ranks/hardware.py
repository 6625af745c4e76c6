"""Detect what PyTorch finds on this machine: accelerators, and backends of ``torch.distributed``."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
from dataclasses import asdict, dataclass, field
from typing import Any

#: The file in which NVIDIA's driver gives its version.
NVIDIA = "/proc/driver/nvidia/version"


@dataclass(frozen=True)
class Hardware:
    """What there is, as the controller needs to know it without torch.

    Attributes:
        accelerators: the devices of each type, each by what tells it from all others; none of a type that only the
            build of PyTorch knows.
        models: what each type's first device is called.
        driver: the version of NVIDIA's driver, where there is one.
        backends: every backend of ``torch.distributed``, with the types of devices whose tensors it moves.
        built: those backends that this PyTorch has indeed.
        nccl: the version of NCCL.
    """

    accelerators: dict[str, list[str]] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    driver: str = ""
    backends: dict[str, list[str]] = field(default_factory=dict)
    built: list[str] = field(default_factory=list)
    nccl: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Hardware:
        """Rebuild from :meth:`to_json`."""
        return cls(**{**data, "nccl": tuple(data["nccl"])})


def detect() -> Hardware:
    """Detect what this machine has; another process counts devices: one that used a driver must not fork."""
    import torch.distributed as dist

    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.write(write_end, json.dumps(_devices()).encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    devices = json.loads(said or '{"accelerators": {}, "models": {}, "driver": ""}')
    return Hardware(**devices, **(_backends() if dist.is_available() else {}))


def _devices() -> dict[str, Any]:
    import torch

    types = ("cuda", "xpu", "mps", "mtia", torch._C._get_privateuse1_backend_name())
    modules = {name: getattr(torch, name) for name in types if hasattr(torch, name)}
    counts = {name: module.device_count() if module.is_available() else 0 for name, module in modules.items()}
    described = {name: [_properties(modules[name], index) for index in range(count)] for name, count in counts.items()}
    driver = ""
    with contextlib.suppress(OSError), open(NVIDIA) as file:
        driver = "".join(re.findall(r"\d+\.\d+(?:\.\d+)?", file.read())[:1])
    return {
        "accelerators": {
            name: [str(getattr(one, "uuid", index)) for index, one in enumerate(each)]
            for name, each in described.items()
        },
        "models": {name: getattr(each[0], "name", name) for name, each in described.items() if each},
        "driver": driver,
    }


def _properties(module: Any, index: int) -> Any:
    reading = getattr(module, "get_device_properties", None)
    return reading(index) if reading else None


def _backends() -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    backends = {
        name: list(dist.Backend.backend_capability.get(name, ()))
        for name in dist.Backend.backend_list
        if name not in {dist.Backend.UNDEFINED, "fake"}
    }
    nccl = _nccl() or tuple(torch.cuda.nccl.version()) if dist.is_nccl_available() else ()
    return {"backends": backends, "built": [*filter(dist.is_backend_available, backends)], "nccl": nccl}


def _nccl() -> tuple[int, ...]:
    """The version of the library in this process; PyTorch tells the one that it was compiled with."""
    number = ctypes.c_int()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libnccl.so.2", os.RTLD_NOLOAD).ncclGetVersion(ctypes.byref(number))
    return as_version(number.value)


def as_version(number: int) -> tuple[int, ...]:
    """NCCL's number of its release, taken apart; nothing for 0.

    >>> as_version(23007), as_version(0)
    ((2, 30, 7), ())
    """
    return (number // 10000, number // 100 % 100, number % 100) if number else ()
