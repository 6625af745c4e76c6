"""Sign with the user's own secret: the messages of launched processes, and the journal of a run."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path

from conformance.core.errors import UsageError
from conformance.core.files import read_bytes

KEY, KEY_FILE = "CONFORMANCE_KEY", "CONFORMANCE_KEY_FILE"
SHORTEST, LONGEST = 16, 1 << 16


def pop_key(environment: MutableMapping[str, str]) -> bytes:
    """Return the key, and remove it from the environment that ranks inherit.

    ``CONFORMANCE_KEY`` holds it, or ``CONFORMANCE_KEY_FILE`` names a file that nobody else may read. Without either
    it is in the user's home, which the machines of a cluster usually share; the first process makes it.

    Raises:
        UsageError: there is none, or it is not private to the user.
    """
    given = environment.pop(KEY, "")
    if given:
        return _long_enough(given.encode(), KEY)
    if KEY_FILE in environment:
        return _read(Path(environment[KEY_FILE]))
    try:
        path = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config", "conformance", "key")
        _make(path)
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"a key of your own is needed, and none can be kept in your home ({error}); "
            f"set {KEY}, or {KEY_FILE} to a file that only you may read"
        ) from None
    return _read(path)


def own_key(environment: MutableMapping[str, str]) -> bytes:
    """Return the key; if the user's home cannot keep one, a key for this run alone.

    Raises:
        UsageError: the environment names a key that cannot be used.
    """
    named = KEY in environment or KEY_FILE in environment
    try:
        return pop_key(environment)
    except UsageError:
        if named:
            raise
        return secrets.token_bytes(32)


def _make(path: Path) -> None:
    """Make a key if there is none; it appears whole, and once, however many processes try."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    draft.touch(mode=0o600)
    try:
        draft.write_text(secrets.token_hex(32), "ascii")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _read(path: Path) -> bytes:
    return _long_enough(read_bytes(path, LONGEST, owned=True).strip(), str(path))


def _long_enough(key: bytes, where: str) -> bytes:
    if len(key) < SHORTEST:
        raise UsageError(f"{where}: a key of {len(key)} bytes can be guessed; give {SHORTEST} or more")
    return key
