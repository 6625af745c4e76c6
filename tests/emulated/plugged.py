"""A package that ``import torch`` calls, by its entry point in the group ``torch.backends``."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, body: str) -> str:
    """Lay such a package into a folder; ``body`` is that of its function. Returns the folder, for PYTHONPATH."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (folder / "plugged.py").write_text(f"def register():\n{lines}")
    information = folder / "plugged-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[torch.backends]\nplugged = plugged:register\n")
    return str(folder)
