"""Finds modules of the suite in the script itself."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from conformance.reproduce.pieces.embedded import PACKAGES, SOURCES


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer of the sources below."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Called for every import; only what the script carries is found here."""
        if name not in SOURCES:
            return None
        found = importlib.util.spec_from_loader(name, self, is_package=name in PACKAGES)
        if found and found.submodule_search_locations is not None and name.startswith("spec_impl"):
            # The reference, of which the subject may be a part that the script does not carry.
            found.submodule_search_locations += [os.path.join(place, *name.split(".")) for place in sys.path]
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Called to run a module that was found."""
        exec(compile(SOURCES[module.__name__], f"<{module.__name__}>", "exec"), module.__dict__)
