"""Run a user's own test on one rank: import and call what pytest's item names."""

from __future__ import annotations

import ast
import base64
import bdb
import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import cloudpickle

from conformance.kit.deviations import Skipped
from conformance.kit.world import World
from conformance.ranks.own_warnings import into, noted

#: How the reason of a ``pytest.xfail`` on a rank begins.
XFAIL = "xfail: "
#: What to do about a breakpoint on a rank that is a process: nobody can type there.
NO_DEBUGGER = "a debugger needs simulated ranks: mark the test with ranks(..., simulated=True), or pass --pdb"


def run(world: World, path: Sequence[str], target: str, values: str, warned: str) -> None:
    """Call a test with its values, and the rank's world.

    Args:
        world: the ranks.
        path: where pytest's process looks for modules.
        target: ``module:function``, or ``module:Class.method``.
        values: its other arguments, pickled.
        warned: a folder in which each rank notes its warnings.
    """
    module, _, name = target.partition(":")
    sys.path[:0] = [entry for entry in path if entry not in sys.path]
    found = _imported(module)
    *owners, function = name.split(".")
    for owner in owners:
        found = getattr(found, owner)()
    outcomes: Any = importlib.import_module("_pytest.outcomes")
    given = cloudpickle.loads(base64.b64decode(values))
    with contextlib.ExitStack() as stack:
        stack.enter_context(noted(into(Path(warned) / str(world.rank))))
        if not os.environ.get("PYTHONBREAKPOINT"):  # what it names may reach a rank, such as a debugger at a port
            stack.enter_context(patch.object(sys, "breakpointhook", _no_debugger))
        if given.pop("monkeypatch", None):
            from _pytest.monkeypatch import MonkeyPatch

            given["monkeypatch"] = stack.enter_context(MonkeyPatch.context())
        try:
            getattr(found, function)(world=world, **given)
        except outcomes.Skipped as skipped:
            raise Skipped(str(skipped)) from None
        except outcomes.XFailed as failed:
            raise Skipped(f"{XFAIL}{failed}") from None
        except bdb.BdbQuit as ended:
            ended.args = (NO_DEBUGGER,)
            raise


def _no_debugger(*_: object, **__: object) -> NoReturn:
    """Stand for ``breakpoint`` on a rank."""
    raise bdb.BdbQuit(NO_DEBUGGER)


def _imported(name: str) -> Any:
    """Import a test's module with pytest's rewritten assertions, as in pytest's own process."""
    if name in sys.modules:
        return sys.modules[name]
    from _pytest.assertion.rewrite import rewrite_asserts

    parent = name.rpartition(".")[0]
    if parent:
        importlib.import_module(parent)
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module named {name!r} is found on a rank, in {sys.path}")
    source = Path(spec.origin).read_bytes()
    tree = ast.parse(source, spec.origin)
    rewrite_asserts(tree, source)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        exec(compile(tree, spec.origin, "exec", dont_inherit=True), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module
