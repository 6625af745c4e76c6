"""Locate the ranks of a group, and the address where their process group meets."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass

#: The variable that names the network interface for Gloo, or several separated by commas.
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"


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


def no_such_interface(environment: Mapping[str, str] = os.environ) -> str:
    """Say why Gloo cannot set up a process group on the interface that the user chose; empty if it can.

    >>> no_such_interface({"GLOO_SOCKET_IFNAME": "nope0"})
    "GLOO_SOCKET_IFNAME='nope0': this machine has no such network interface; there are ..."
    >>> no_such_interface({})
    ''
    """
    chosen = environment.get(GLOO_INTERFACE, "")
    there = [name for _, name in socket.if_nameindex()] if chosen else []
    if {*filter(None, chosen.split(","))} <= {*there}:
        return ""
    return f"{GLOO_INTERFACE}={chosen!r}: this machine has no such network interface; there are {', '.join(there)}"
