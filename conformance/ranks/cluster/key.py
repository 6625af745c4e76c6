"""The secret that all launched processes of a user share, by which they know each other's messages."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import MutableMapping
from pathlib import Path

from conformance.core.errors import UsageError

KEY, KEY_FILE = "CONFORMANCE_KEY", "CONFORMANCE_KEY_FILE"
SHORTEST = 16


def pop_key(environment: MutableMapping[str, str]) -> bytes:
    """The key, taken out of the environment that ranks are to inherit.

    ``CONFORMANCE_KEY`` holds it, or ``CONFORMANCE_KEY_FILE`` names a file that nobody else may read. Without either it
    is in the user's home, which the machines of a cluster mostly share, and is made there by whoever comes first.

    Raises:
        UsageError: there is none, or others could read it.
    """
    given = environment.pop(KEY, "")
    if given:
        return _long_enough(given.encode(), KEY)
    if KEY_FILE in environment:
        return _read(Path(environment[KEY_FILE]))
    home = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(home, "conformance", "key")
    try:
        _make(path)
    except OSError as error:
        raise UsageError(
            f"launched processes need a key in common, and {path} cannot be written ({error.strerror}); "
            f"set {KEY}, or {KEY_FILE} to a file that only you may read"
        ) from None
    return _read(path)


def _make(path: Path) -> None:
    """Make a key where there is none; it appears whole, and only once however many processes try."""
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
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise UsageError(f"{path}: others may read this key; say `chmod 600 {path}`")
            return _long_enough(file.read().strip(), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; {KEY_FILE} names a file with the cluster's key") from None


def _long_enough(key: bytes, where: str) -> bytes:
    if len(key) < SHORTEST:
        raise UsageError(f"{where}: a key of {len(key)} bytes can be guessed; give {SHORTEST} or more")
    return key
