"""``torch.emulated``: what PyTorch looks for in the module of a device. Imported by ``load`` alone."""

from __future__ import annotations

from typing import Any

import torch

from conformance.emulated._emulated import (
    current_device,
    default_generator,
    device_count,
    in_bad_fork,
)
from conformance.emulated._emulated import set_device as _set_index
from conformance.emulated._emulated import synchronize as _synchronize_index

__all__ = [
    "current_device",
    "current_stream",
    "device",
    "device_count",
    "get_amp_supported_dtype",
    "get_rng_state",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "set_device",
    "set_rng_state",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a device: always."""
    return True


def is_initialized() -> bool:
    """Whether the device is ready for use: always."""
    return True


def set_device(device: Any) -> None:
    """Make ``device`` the current one of this thread."""
    _set_index(_index(device))


def device(device: Any) -> Any:
    """A context in which ``device`` is the current one."""
    return torch.accelerator.device_index(_index(device))


def synchronize(device: Any = None) -> None:
    """Wait for all streams of ``device``."""
    _synchronize_index(_index(device))


def current_stream(device: Any = None) -> torch.Stream:
    """The current stream of ``device`` in this thread."""
    return torch.accelerator.current_stream(torch.device("emulated", _index(device)))


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device."""
    default_generator(current_device()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices: ``torch.manual_seed`` calls this."""
    for index in range(device_count()):
        default_generator(index).manual_seed(seed)


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The state of a device's generator."""
    return default_generator(_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Put back what :func:`get_rng_state` returned."""
    default_generator(_index(device)).set_state(new_state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What ``torch.autocast("emulated")`` may compute in."""
    return [torch.float16, torch.bfloat16]


def _index(device: Any) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return current_device() if index is None else index


def _is_in_bad_fork() -> bool:
    return in_bad_fork()


def _lazy_init() -> None:
    """There is nothing to start."""
