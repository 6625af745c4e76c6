"""Where a benchmark's ranks compute: the CPU, or an accelerator, which is waited for and asked for its memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Goes on after how many ranks there were, and how many devices.
SHARED = "much of each time goes into switching the device between processes"


@dataclass(frozen=True)
class Place:
    """A type of device, the backend that goes with it, and the library of the emulated one."""

    device: str = "cpu"
    backend: str = "gloo"
    library: Path | None = None

    @classmethod
    def of(cls, device: str) -> Place:
        """Return the place for a type of device; compile the emulated one if necessary."""
        from conformance.core.options import RunOptions
        from conformance.run.emulation import emulated_library

        options = RunOptions(device=device).checked()
        return cls(options.device, options.backend, emulated_library(device))

    def enter(self, rank: int) -> str:
        """Make a rank's device the current one; ranks take the devices in turn. Returns its name."""
        if self.device == "cpu":
            return "cpu"
        import torch

        if self.library:
            from conformance.emulated import load

            load(self.library)
        torch.accelerator.set_device_index(rank % torch.accelerator.device_count())
        return self.device

    def sharing(self, worlds: Sequence[int]) -> str:
        """What is to be known of times that were taken with fewer devices than ranks."""
        if self.device == "cpu" or self.library:
            return ""
        import torch

        there = torch.accelerator.device_count()
        return (
            f"Up to {max(worlds)} ranks shared {there} device{'s' * (there > 1)}: {SHARED}."
            if max(worlds) > there
            else ""
        )

    def wait(self) -> None:
        """Let the device finish what it was given."""
        if self.device != "cpu":
            import torch

            torch.accelerator.synchronize()

    def growth(self, once: Callable[[], object]) -> float:
        """By how much memory grows at most while a form runs, results included (MiB): of the process, or the device."""
        gc.collect()
        return _of_process(once) if self.device == "cpu" else self._of_device(once)

    def _of_device(self, once: Callable[[], object]) -> float:
        import torch

        self.wait()
        torch.accelerator.reset_peak_memory_stats()
        before = torch.accelerator.memory_allocated()
        result = once()
        self.wait()
        grown = torch.accelerator.max_memory_allocated() - before
        del result
        return grown / 2**20


def _of_process(once: Callable[[], object]) -> float:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the highest point so far
    before = _status("VmRSS")
    once()
    return (_status("VmHWM") - before) / 1024


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
