"""Prepare the standard streams of the command: one may be closed from the start, or encode only ASCII."""

from __future__ import annotations

import io
import os
import sys


def open_missing() -> None:
    """Open descriptors 0 to 2 on /dev/null if they are closed, so that no socket gets their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            stream = open(number, mode, closefd=False)  # noqa: SIM115 - as long as the process lives
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def escape_what_they_cannot_say() -> None:
    """Make stdout and stderr escape the characters that their encoding cannot represent."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
