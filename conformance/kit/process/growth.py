"""Measure how far a rank has grown: in memory, on accelerators and in open files."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

from conformance.kit import seeds

#: A rank that has grown by more than this is replaced before the next test (bytes).
MUCH_MEMORY = 512 << 20
#: The same for open files.
MANY_FILES = 100


class Growth:
    """Growth of a rank since it started: not a fault, but a rank cannot grow for ever."""

    def __init__(self) -> None:
        self.start, self.on_devices, self.files = _memory(), _device_memory(), _open_files()

    def differences(self) -> list[str]:
        """Name memory and open files if they have grown too much."""
        grown = {"memory": _memory() - self.start, "device memory": _device_memory() - self.on_devices}
        found = [name for name, bytes_more in grown.items() if bytes_more > MUCH_MEMORY]
        return found + (["open files"] if _open_files() - self.files >= MANY_FILES else [])


def _memory() -> int:
    """Return how many bytes belong to this process alone."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        pages = [int(word) for word in file.read().split()]
        return (pages[1] - pages[2]) * resource.getpagesize()
    return 0


def _device_memory() -> int:
    """Return how many bytes PyTorch holds on accelerators."""
    readings = [getattr(module, "memory_reserved", None) for module in seeds.devices_in_use().values()]
    return sum(reading() for reading in readings if reading)


def _open_files() -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return sys.maxsize  # there is no descriptor left to look with
