"""Stands for the sources that a script carries."""

from __future__ import annotations

PACKAGES: tuple[str, ...] = ()
SOURCES: dict[str, str] = {}
