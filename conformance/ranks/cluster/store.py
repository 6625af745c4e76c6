"""Exchange signed JSON between launched processes, in the launcher's own store.

Anybody who reaches the launcher's port may write to its store. So every value is signed, together with its name, with a
key that only the launched processes have.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from conformance.core.errors import RunnerError
from conformance.core.key import KEY, pop_key

#: What a launcher leaves in the environment. Ranks do not see it: their world is not the launcher's.
LAUNCHED = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_NAME",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE",
)  # fmt: skip
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
#: A signature's length (bytes).
SIGNATURE = 32
#: A look at the store costs a message; one that waits looks at most so often, and ever less often (seconds).
SOON, SELDOM = 0.001, 0.5
#: How long launched processes may take to find each other: each imports torch, some from a slow disk (seconds).
GATHER_LIMIT = 300.0
#: How often the first process gives a sign of life, and how long the others do without one (seconds).
BEAT, SILENCE = 20.0, 300.0


@dataclass(frozen=True)
class Launch:
    """The launcher's settings: which of how many processes this is, and where they meet."""

    rank: int
    size: int
    local_rank: int
    host: str
    port: int
    agent_has_store: bool = False
    key: bytes = field(default=b"", repr=False)


def launch_in(environment: Mapping[str, str]) -> Launch | None:
    """Read a launcher's settings from the environment; None if this process is the only one.

    >>> launch_in({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"})
    Launch(rank=1, size=4, local_rank=1, host='node0', port=29500, agent_has_store=False)
    >>> launch_in({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}) is None
    True
    """
    if not all(environment.get(name) for name in NEEDED):
        return None
    try:
        rank, size, port = (int(environment[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        local_rank = int(environment.get("LOCAL_RANK", rank))
    except ValueError:
        return None
    if size < 2 or not 0 <= rank < size:
        return None
    agent = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return Launch(rank, size, local_rank, environment["MASTER_ADDR"], port, agent)


def pop_launch(environment: MutableMapping[str, str]) -> Launch | None:
    """Read the same and the key, and remove the key from the environment, so that ranks do not inherit it.

    Raises:
        UsageError: the launched processes have no key in common.
    """
    launch = launch_in(environment)
    if launch is None:
        return None
    for name in LAUNCHED:
        environment.pop(name, None)
    return replace(launch, key=pop_key(environment))


def launcher() -> str:
    """Identify the process that started this one: it outlives the attempts that it starts."""
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat", "rb") as file:
            began = file.read().rpartition(b") ")[2].split()[19].decode()
    except OSError:
        return ""
    return f"{socket.gethostname()} {parent} {began}"


def connect(launch: Launch) -> Any:
    """Connect to the launcher's store; if the launcher has none, the first process opens one."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # every wait that comes to its end would print a warning
    import torch.distributed as dist

    mine = launch.rank == 0 and not launch.agent_has_store
    store = dist.TCPStore(
        launch.host, launch.port, None, is_master=mine, timeout=timedelta(seconds=GATHER_LIMIT), wait_for_workers=False
    )
    return dist.PrefixStore("conformance", store)


class Forged(RunnerError):
    """A value in the store is not from one of our own processes."""


class StoreLost(RunnerError):
    """The launcher's store does not answer any more."""


class LeaderSilent(RunnerError):
    """The leading process has exited or is stuck."""


class Post:
    """A store of signed JSON values. It counts its messages, whose number grows with that of ranks."""

    def __init__(self, store: Any, key: bytes, prefix: str = "") -> None:
        self.store = store
        self.key = key
        self.prefix = prefix
        self.messages = 0

    def put(self, name: str, value: Any) -> None:
        """Write one value for all processes."""
        text = json.dumps(value).encode()
        self._ask(self.store.set, self.prefix + name, self._signature(name, text) + text)

    def read(self, name: str) -> Any:
        """Read one value; wait until it exists.

        Raises:
            Forged: it was not signed with our key.
        """
        return self._verified(name, self._ask(self.store.get, self.prefix + name))

    def await_order(self, name: str) -> Any:
        """Read a value that the first process will write; wait while that process sends signs of life.

        A run may take hours without a message to this process, so the wait itself has no limit.

        Raises:
            Forged: it was not signed with our key.
            LeaderSilent: the first process has given no sign of life.
        """
        from torch.distributed import DistStoreError

        beats, since = self.count("beat"), time.monotonic()
        while True:
            try:
                self.store.wait([self.prefix + name], timedelta(seconds=min(BEAT, SILENCE)))
                return self.read(name)
            except DistStoreError:  # not yet
                now = self.count("beat")
            if now != beats:
                beats, since = now, time.monotonic()
            elif time.monotonic() - since > SILENCE:
                raise LeaderSilent(f"the first process has given no sign of life for {SILENCE:g} s")

    def read_all(self, names: list[str]) -> list[Any]:
        """Read many existing values, in one message.

        Raises:
            Forged: one was not signed with our key.
        """
        found = self._ask(self.store.multi_get, [self.prefix + name for name in names])
        return [self._verified(name, data) for name, data in zip(names, found, strict=True)]

    def _verified(self, name: str, data: bytes) -> Any:
        signature, text = data[:SIGNATURE], data[SIGNATURE:]
        if not hmac.compare_digest(signature, self._signature(name, text)):
            raise Forged(
                f"{name!r} in the launcher's store is not signed with our key: somebody else writes there, or the "
                f"processes have different keys; set {KEY} to the same text for all of them"
            )
        return json.loads(text)

    def _signature(self, name: str, text: bytes) -> bytes:
        return hmac.digest(self.key, f"{self.prefix}{name}\0".encode() + text, "sha256")

    def has(self, key: str) -> bool:
        """Tell whether there is a value."""
        return bool(self._ask(self.store.check, [self.prefix + key]))

    def count(self, key: str, more: int = 0) -> int:
        """Add to a shared number, and read it."""
        return int(self._ask(self.store.add, self.prefix + key, more))

    def drop(self, *keys: str) -> None:
        """Remove what all processes have read."""
        for key in keys:
            self._ask(self.store.delete_key, self.prefix + key)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """One message to the store.

        Raises:
            StoreLost: it does not answer. It hangs up on whoever adds to a counter that holds no number.
        """
        self.messages += 1
        try:
            return function(*arguments)
        except RuntimeError as error:
            said = str(error).partition("\n")[0]
            raise StoreLost(f"the launcher's store is gone, or somebody else writes there: {said}") from error


def keep_beating(launch: Launch, prefix: str) -> None:
    """Send regular signs of life to the other processes, over a connection of its own, until this process ends."""

    def beat() -> None:
        with contextlib.suppress(RuntimeError):  # the store is gone, and the run with it
            post = Post(connect(replace(launch, agent_has_store=True)), launch.key, prefix)
            while True:
                post.count("beat", 1)
                time.sleep(BEAT)

    threading.Thread(target=beat, name="signs of life", daemon=True).start()


class Backoff:
    """Return when to check again: at once in the beginning, then less and less often."""

    def __init__(self) -> None:
        self.start = self.last = time.monotonic()

    @property
    def pause(self) -> float:
        """Seconds until the next look is due: a twentieth of what has gone by, so that waiting costs few messages."""
        return min(SELDOM, max(SOON, (time.monotonic() - self.start) / 20))

    def due(self) -> bool:
        """Whether it is time to look again."""
        now = time.monotonic()
        if now - self.last < self.pause:
            return False
        self.last = now
        return True
