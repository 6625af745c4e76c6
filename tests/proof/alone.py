"""Runs scripts where torch and the planted bugs are all there is: a line of JSON for each, and one in answer.

Started as a file of its own, it never imports the suite, so a script cannot lean on it by accident. Each script runs
in a fork of this process, which has imported torch already; the ranks that it starts are forks as well.
"""

from __future__ import annotations

import importlib
import importlib.abc
import json
import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import time
from typing import Any

import torch.multiprocessing

#: What a script may take in all (seconds), and the status of one that took longer.
LIMIT, LATE = 60.0, 124


def main() -> None:
    """Answer every line until there is none."""
    _fork_ranks()
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            status = _run(asked["script"], asked["setup"], asked["suite"], output)
            output.seek(0)
            print(json.dumps({"status": status, "said": output.read()[-2000:]}), flush=True)


class _NoSuite(importlib.abc.MetaPathFinder):
    """Refuses the suite itself; what a script carries of it is found before this is asked."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Called for every import."""
        if name.partition(".")[0] == "conformance":
            raise ImportError(f"torch alone was promised, and {name} is asked for")


def _fork_ranks() -> None:
    start, fork = torch.multiprocessing.start_processes, multiprocessing.get_context("fork")
    torch.multiprocessing.spawn = lambda *args, **named: start(*args, **named, start_method="fork")
    torch.multiprocessing.get_context = lambda method=None: fork


def _run(script: str, setup: str, suite: bool, output: Any) -> int:
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os._exit(_ended(script, setup, suite))
    limit = time.monotonic() + LIMIT
    while time.monotonic() < limit:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return LATE


def _ended(script: str, setup: str, suite: bool) -> int:
    sys.argv = [script]
    sys.path.insert(0, os.getcwd())
    if not suite:
        sys.meta_path.insert(0, _NoSuite())
    try:
        if setup:
            module, _, name = setup.partition(":")
            getattr(importlib.import_module(module), name)()
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 99
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main()
