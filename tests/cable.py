"""A network between namespaces made of TAP devices: every frame reaches all others, after a delay if one is wanted."""

from __future__ import annotations

import fcntl
import heapq
import os
import selectors
import struct
import threading
import time
from collections.abc import Sequence
from types import TracebackType

TUNSETIFF = 0x400454CA
TAP, NO_HEADER = 0x0002, 0x1000
FRAME = 65_536


class Hub:
    """Carries frames between devices in this process: no kernel module for delays is needed."""

    def __init__(self, devices: Sequence[str], delay: float = 0.0) -> None:
        """Make the devices.

        Args:
            devices: what they are called.
            delay: how long a frame is under way, in seconds.

        Raises:
            PermissionError: this process may not make network devices.
        """
        self.delay = delay
        self.ends = [_device(name) for name in devices]
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Hub:
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ending.set()
        self.thread.join()
        for end in self.ends:
            os.close(end)  # and the device is gone

    def _carry(self) -> None:
        selector = selectors.DefaultSelector()
        for end in self.ends:
            selector.register(end, selectors.EVENT_READ)
        under_way: list[tuple[float, int, int, bytes]] = []
        number = 0
        while not self.ending.is_set():
            wait = min(0.1, max(0.0, under_way[0][0] - time.monotonic())) if under_way else 0.1
            for key, _ in selector.select(wait):
                try:
                    frame = os.read(key.fd, FRAME)
                except OSError:  # the device is down: the cable is cut
                    time.sleep(0.001)
                    continue
                number += 1
                heapq.heappush(under_way, (time.monotonic() + self.delay, number, key.fd, frame))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, source, frame = heapq.heappop(under_way)
                for end in self.ends:
                    if end != source:
                        _put(end, frame)
        selector.close()


def _put(end: int, frame: bytes) -> None:
    try:
        os.write(end, frame)
    except OSError:  # nobody listens there; TCP will send it again
        return


def _device(name: str) -> int:
    try:
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP | NO_HEADER))
    except OSError as error:
        raise PermissionError(f"needs the right to make network devices: {error.strerror}") from None
    return end
