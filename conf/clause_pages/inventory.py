"""Inventories of other sites, kept in the repo as text, in the form that intersphinx reads."""

from __future__ import annotations

import zlib
from pathlib import Path

_HEADER = """# Sphinx inventory version 2
# Project: {name}
# Version:
# The remainder of this file is compressed using zlib.
"""


def write_inventories(folder: Path, target: Path) -> dict[str, Path]:
    """Pack every ``NAME.txt`` of ``folder`` into ``target/NAME.inv``.

    A line reads ``name domain:role priority uri dispname``.
    """
    target.mkdir(parents=True, exist_ok=True)
    return {path.stem: _write(path, target / f"{path.stem}.inv") for path in sorted(folder.glob("*.txt"))}


def _write(source: Path, target: Path) -> Path:
    lines = [line for line in source.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    body = "".join(f"{line}\n" for line in lines).encode()
    packed = _HEADER.format(name=source.stem).encode() + zlib.compress(body, 9)
    if not target.exists() or target.read_bytes() != packed:  # an untouched file keeps an unchanged build quick
        target.write_bytes(packed)
    return target
