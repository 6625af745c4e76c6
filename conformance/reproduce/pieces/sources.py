"""Finds modules of the suite in the script itself."""

from __future__ import annotations

import importlib.abc
import importlib.util
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from conformance.reproduce.pieces.embedded import PACKAGES, SOURCES


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer of the sources below, of packages whose names begin in one of these ways."""

    def __init__(self, *beginnings: str) -> None:
        """Take the beginnings."""
        self.beginnings = beginnings

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Called for every import; only what the script carries is found here."""
        if name not in SOURCES or not name.startswith(self.beginnings):
            return None
        return importlib.util.spec_from_loader(name, self, is_package=name in PACKAGES)

    def exec_module(self, module: ModuleType) -> None:
        """Called to run a module that was found."""
        exec(compile(SOURCES[module.__name__], f"<{module.__name__}>", "exec"), module.__dict__)
