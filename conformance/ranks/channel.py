"""Exchange frames between a rank and its controller: a length, then JSON. Never a pickle: a rank sends only data."""

from __future__ import annotations

import array
import errno
import json
import os
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

HEAD = struct.Struct("!Q")
#: Largest frame that a rank may send; the controller has no limit, since samples have any size.
FRAME_LIMIT = 8 << 20
#: How much is written to a rank at once (bytes): each part has its own time limit.
PART = 1 << 20
MESSAGE_LIMIT = 65_536
#: Exit status of a rank that cannot go on: it has reported why, or its last line of output says so.
RANK_BROKE = 70
#: How much of its error such a rank reports (characters).
LAST_WORDS = 2000
MAX_DESCRIPTORS = 250


class Garbled(Exception):
    """The bytes are not a frame of the suite: something else wrote to the connection."""


def pack(message: dict[str, Any]) -> bytes:
    """One frame.

    >>> pack({"op": "end"})[8:]
    b'{"op": "end"}'
    """
    body = json.dumps(message).encode()
    return HEAD.pack(len(body)) + body


class Frames:
    """Collect bytes as they arrive, and return complete messages.

    >>> frames = Frames()
    >>> frames.feed(pack({"a": 1}) + pack({"b": 2})[:5])
    [{'a': 1}]
    """

    def __init__(self, limit: int | None = FRAME_LIMIT) -> None:
        self.buffer = bytearray()
        self.limit = limit

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Add bytes; return the messages that are now complete.

        Raises:
            Garbled: the bytes are not frames of the suite.
        """
        self.buffer += data
        messages = []
        while len(self.buffer) >= HEAD.size:
            (length,) = HEAD.unpack_from(self.buffer)
            if self.limit is not None and length > self.limit:
                raise Garbled(f"a frame of {length} bytes")
            end = HEAD.size + length
            if len(self.buffer) < end:
                break
            messages.append(_decoded(bytes(self.buffer[HEAD.size : end])))
            del self.buffer[:end]
        return messages


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Garbled(str(error)) from None
    if not isinstance(message, dict):
        raise Garbled(f"a {type(message).__name__} instead of an object")
    return message


class Channel:
    """The rank's end: blocking, one message at a time, for the rank itself, not for processes that it forks."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.frames = Frames(limit=None)
        self.pending: list[dict[str, Any]] = []
        self.owner = os.getpid()
        self.sending = threading.RLock()

    def send(self, message: dict[str, Any]) -> None:
        """Send one whole message, even if other threads send too.

        A process that a subject forked, and that runs on into the test, ends here: it is not a rank.
        """
        if os.getpid() != self.owner:
            os._exit(0)
        with self.sending:
            os.set_blocking(self.sock.fileno(), True)  # a subject may have made all its descriptors non-blocking
            self.sock.sendall(pack(message))

    def receive(self) -> dict[str, Any] | None:
        """Receive the next message, or None if the controller has closed the connection."""
        while not self.pending:
            data = self.sock.recv(65_536)
            if not data:
                return None
            self.pending = self.frames.feed(data)
        return self.pending.pop(0)


def give(sock: socket.socket, message: dict[str, Any], limit: float) -> None:
    """Send a rank one frame; each part may take ``limit`` seconds.

    Raises:
        OSError: the rank is gone, or does not read.
    """
    data = memoryview(pack(message))
    sock.settimeout(limit)
    for start in range(0, len(data), PART):
        sock.sendall(data[start : start + PART])
    sock.setblocking(False)


def last_words(descriptor: int, text: str) -> None:
    """Report why the rank cannot go on, using only functions that a subject is unlikely to have broken."""
    plain = "".join(letter if " " <= letter <= "~" and letter not in '"\\' else "?" for letter in text[-LAST_WORDS:])
    body = b'{"event": "broke", "message": "' + plain.encode() + b'"}'
    os.write(descriptor, len(body).to_bytes(HEAD.size, "big") + body)


def send(sock: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message with the file descriptors that belong to it."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    sock.sendmsg([json.dumps(message).encode()], rights)


def receive(sock: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message; None if the other end is closed.

    Raises:
        OSError: the message came with more descriptors than this process may open.
    """
    size = array.array("i").itemsize
    try:
        data, ancillary, flags, _ = sock.recvmsg(MESSAGE_LIMIT, socket.CMSG_SPACE(MAX_DESCRIPTORS * size))
    except ConnectionResetError:
        return None, []
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % size])
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return (json.loads(data) if data else None), list(descriptors)
