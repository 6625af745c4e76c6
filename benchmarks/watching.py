"""From saving a file to the new verdict, under ``conformance watch``."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, Figure

WAITING = "watching for changes"
SUBJECTS = {"GradFactor": "torchlogix", "AllGather": "towhee", "AllGatherGradAutograd": "ksuit"}


def measure(rounds: int) -> dict[str, Any]:
    """Seconds from a save to the end of the round, for one subject of each spec, at most two ranks."""
    return {spec: Figure.of(_saves(spec, module, rounds)).to_json() for spec, module in SUBJECTS.items()}


def _saves(spec: str, module: str, rounds: int) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="watched-") as folder:
        source = inspect.getsource(importlib.import_module(f"spec_impl.{module}"))
        file = Path(folder) / "watched.py"
        file.write_text(source, encoding="utf-8")
        command = [sys.executable, "-m", "conformance", "watch", f"watched:{spec}", "--spec", spec, "--ranks", "2"]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        ended = threading.Semaphore(0)
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        threading.Thread(target=lambda: [ended.release() for line in lines if WAITING in line], daemon=True).start()
        try:
            _wait(ended)
            found = []
            for number in range(rounds + 1):
                time.sleep(0.5)  # the watcher has gone to sleep
                start = time.perf_counter()
                file.write_text(f"{source}\n# saved {number} times\n", encoding="utf-8")
                _wait(ended)
                found.append(time.perf_counter() - start)
            return found[1:]
        finally:
            process.kill()
            process.wait()


def _wait(ended: threading.Semaphore) -> None:
    if not ended.acquire(timeout=120):
        raise TimeoutError("no round ended within two minutes")
