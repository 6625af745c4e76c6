"""Stands for a planned test: a script has its own in this place."""

from __future__ import annotations

from typing import Any

SUBJECT, SPEC = "", "Function"
INPUTS: str | None = None
TYPES: str | None = None
TEST = ("module", "function")
CASE: dict[str, Any] = {}
ARGUMENTS: tuple[str, ...] = ()
SIZE, GROUP = 1, False
DEVICE, BACKEND = "cpu", "gloo"
TIMEOUT = 30.0
#: Whether the bug shows as a rank that hangs or crashes.
HANGS = False
