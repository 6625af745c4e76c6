"""Standard streams that were closed by whoever started this process."""

from __future__ import annotations

import os
import sys


def open_missing() -> None:
    """Open descriptors 0 to 2 on nothing where they are closed, so that no socket takes their place."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            stream = open(number, mode, closefd=False)  # noqa: SIM115 - as long as the process lives
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
