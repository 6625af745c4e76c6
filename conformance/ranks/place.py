"""Where the ranks of a group stand, and where their process group meets."""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """The one rank of a larger world that is forked here, and where its process group meets."""

    rank: int
    local_rank: int
    host: str
    port: int
    interface: str
    listener: socket.socket | None


def listening(host: str, size: int) -> socket.socket:
    """A socket on a free port of one address, for a number of ranks to meet at."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.bind((host, 0))
    listener.listen(size + 8)
    return listener


def this_machine(size: int) -> Place:
    """The place of a world of ``size`` ranks that all run here: they meet on the loopback interface."""
    listener = listening("127.0.0.1", size)
    loopback = "lo" if sys.platform == "linux" else "lo0"
    return Place(0, 0, "127.0.0.1", listener.getsockname()[1], loopback, listener)
