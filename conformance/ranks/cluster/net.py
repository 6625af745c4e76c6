"""Identify this machine and its address, and watch whether the launcher's store can still be reached."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import threading
import time

from conformance.core.output import complain

LOOPBACK = "127.0.0.1"
SIOCGIFADDR = 0x8915
#: How often all processes together connect to the store's machine (seconds), and how many may fail in a row.
CALL_EVERY, CALLS_A_SECOND = 5.0, 50
CALL_WAIT, SILENT = 5.0, 3


def machine() -> str:
    """Return a name that is unique for a machine, or a container.

    >>> machine() == machine()
    True
    """
    network = ""
    with contextlib.suppress(OSError):
        network = str(os.stat("/proc/self/ns/net").st_ino)
    return f"{socket.gethostname()} {network}".strip()


def address_towards(host: str, port: int) -> str:
    """Return the address of this machine from which packets to ``host`` leave, without sending any.

    >>> address_towards("127.0.0.1", 9)
    '127.0.0.1'
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str:
    """Return the name of the network interface with an address; empty if it cannot be found.

    >>> interface_of("127.0.0.1") in {"lo", "lo0", ""}
    True
    """
    if sys.platform != "linux" or ":" in address:
        return "lo0" if address == LOOPBACK else ""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""


def end_when_silent(host: str, port: int, size: int) -> None:
    """End this process, and so its rank, once the store's machine has been silent for a while.

    A connection over a cut cable stays silent for ever, so a thread of its own keeps connecting.
    """
    threading.Thread(target=_keep_calling, args=(host, port, size), name="calling the store", daemon=True).start()


def _keep_calling(host: str, port: int, size: int) -> None:
    silent = 0
    while silent < SILENT:
        time.sleep(max(CALL_EVERY, size / CALLS_A_SECOND))
        try:
            socket.create_connection((host, port), CALL_WAIT).close()
            silent = 0
        except OSError:
            silent += 1
    complain(f"the launcher's store at {host}:{port} can no longer be reached")
    # The forkserver finds its connection closed, and ends the rank.
    os._exit(1)
