"""Compile the emulated device, once for each PyTorch and Python, into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from conformance.core.caches import user_cache

SOURCES = Path(__file__).parent / "csrc"

_LIBRARY = "_emulated.so"
_SECONDS = 40  # what compiling takes on one core of an ordinary machine


class BuildError(Exception):
    """The emulated device cannot be compiled here; the message says what is missing, in one line."""


def build(say: Callable[[str], object] = lambda message: None) -> Path:
    """Return the compiled library, after compiling it where the cache does not have it.

    Any number of processes may call this at the same time: one compiles, the others wait for it.

    Args:
        say: Called with a line for the user before something that takes its time.

    Raises:
        BuildError: something is missing that compiling needs, or the compiler has failed.
    """
    folder = cache_folder()
    library = folder / _LIBRARY
    if library.exists():
        return library
    compiler = _compiler()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            say(f"compiling the emulated device, once, about {_SECONDS} s")
            with tempfile.TemporaryDirectory(dir=folder) as work:
                _compile(compiler, Path(work), folder / "log").replace(library)
    return library


def cache_folder() -> Path:
    """Where the library for this PyTorch, this Python and these sources lies, or will lie."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    torch = importlib.metadata.version("torch")
    name = f"torch-{torch}-{sysconfig.get_config_var('SOABI')}-{digest.hexdigest()[:16]}"
    return user_cache() / "emulated" / name


def _compiler() -> str:
    if platform.system() != "Linux":
        raise BuildError(f"the emulated device needs Linux, and this is {platform.system()}")
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++", "clang++"]
    found = next((path for name in wanted if (path := shutil.which(name))), None)
    if found is None:
        raise BuildError(
            f"the emulated device needs a C++ compiler, and there is no {wanted[0]}: install g++, or set CXX"
        )
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").exists():
        raise BuildError(
            f"the emulated device needs Python's headers, and there is no {headers}/Python.h: install python3-dev"
        )
    if importlib.util.find_spec("setuptools") is None:
        raise BuildError("the emulated device needs setuptools to be compiled: pip install setuptools")
    return found


def _compile(compiler: str, work: Path, log: Path) -> Path:
    """Compile in another process, so that neither torch nor setuptools is imported into this one."""
    command = [sys.executable, str(Path(__file__).with_name("setup_extension.py")), str(SOURCES), str(work)]
    environment = {**os.environ, "CC": compiler, "CXX": compiler}
    with log.open("w") as output:
        status = subprocess.run(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
    built = work / _LIBRARY
    if status or not built.exists():
        lines = log.read_text(errors="replace").splitlines()
        reason = next((line for line in lines if "error: " in line), lines[-1] if lines else f"exit status {status}")
        raise BuildError(f"the emulated device could not be compiled, see {log}: {reason}")
    return built
