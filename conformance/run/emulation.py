"""Compile the library of the emulated device, for a run on that device."""

from __future__ import annotations

from pathlib import Path

from conformance.core.errors import UsageError
from conformance.core.output import complain
from conformance.emulated import DEVICE, BuildError, build


def emulated_library(device: str) -> Path | None:
    """Return the library of the emulated device, compiled if necessary; None for another device.

    Raises:
        UsageError: it cannot be compiled here.
    """
    if device.partition(":")[0] != DEVICE:
        return None
    try:
        return build(say=complain)
    except BuildError as error:
        raise UsageError(f"--device {device}: {error}") from None
