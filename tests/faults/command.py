"""Runs the command, as a user would, and finds every process that it started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import warm

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MARK = "CONFORMANCE_TEST_MARK"
#: Tests of the real suite that take little time, of a subject of spec AllGatherGradAutograd.
FEW = "test_gradient_is_the_sum_over_ranks"
SOME = "test_all_gather_grad_backward"


class Running:
    """A command in a session of its own; its processes are known by a mark in their environment."""

    def __init__(self, *words: str, cwd: Path, **options: Any) -> None:
        self.mark = uuid.uuid4().hex
        environment = around(cwd) | {MARK: self.mark} | options.pop("env", {})
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "conformance", *words], cwd=cwd, env=environment, start_new_session=True, **options
        )

    def end(self, within: float = 600.0) -> tuple[int, str, str]:
        """Wait for its end: exit status, stdout, stderr."""
        out, err = self.process.communicate(timeout=within)
        text = [(part or b"").decode("utf-8", "replace") for part in (out, err)]
        return self.process.returncode, text[0], text[1]

    def send(self, number: int, group: bool = False) -> None:
        """A signal; to the whole group, as a terminal's Ctrl-C is."""
        (os.killpg if group else os.kill)(self.process.pid, number)

    def processes(self) -> dict[int, str]:
        """Every living process of the command, with its command line."""
        return marked(self.mark)

    def gone(self, within: float = 60.0) -> dict[int, str]:
        """What is left of its processes after a time; returns as soon as nothing is."""
        limit = time.monotonic() + within
        while (left := self.processes()) and time.monotonic() < limit:
            time.sleep(0.02)
        return left

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


def marked(mark: str) -> dict[int, str]:
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def around(cwd: Path) -> dict[str, str]:
    """The environment of a command that finds the hostile subjects."""
    path = os.pathsep.join(filter(None, [str(HERE), str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path, "TMPDIR": str(cwd), "COLUMNS": "200"}


def start(*words: str, cwd: Path, within: float = 600.0, **options: Any) -> tuple[int, str, str]:
    """Run the command to its end in an interpreter of its own, and see that nothing of it is left."""
    with Running(*words, cwd=cwd, **options) as running:
        ended = running.end(within)
        assert not running.gone()
    return ended


def run(*words: str, cwd: Path, within: float = 600.0, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run the command to its end where torch is imported already, and see that nothing of it is left."""
    done = warm.run("-m", "conformance", *words, cwd=cwd, env=around(cwd) | dict(env or {}), within=within)
    return done.returncode, done.stdout, done.stderr


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + 600.0
    while not condition():
        assert time.monotonic() < limit, "it did not come to that"
        time.sleep(0.02)


def journal(folder: Path) -> list[dict[str, Any]]:
    """The outcomes in a journal so far."""
    file = folder / "outcomes.jsonl"
    lines = file.read_text().splitlines() if file.is_file() else []
    return [json.loads(line) for line in lines if line.startswith('{"nodeid"') and line.endswith("}")]


def reported(report: Path, subject: str = "") -> Iterator[dict[str, Any]]:
    """Every test in a report, of one subject or of all."""
    for part in json.loads(report.read_text())["subjects"]:
        if subject in ("", part["subject"]):
            for clause in part["clauses"]:
                yield from clause["tests"]
