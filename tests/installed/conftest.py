"""The archives, built once for all workers, and an environment that has the wheel."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import venv
from pathlib import Path

import pytest

from tests.installed.commands import ROOT, run


@pytest.fixture(scope="session")
def source(tmp_path_factory) -> Path:
    """The files of the project as a fresh clone has them; an unpacked sdist is one."""
    folder = tmp_path_factory.mktemp("source") / "project"
    if not (ROOT / ".git").exists():
        return Path(shutil.copytree(ROOT, folder))
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def built(source, tmp_path_factory) -> Path:
    """A folder with both archives; the wheel is built from the sdist. One worker builds, others wait for it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "dist"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source], source)
    return folder


@pytest.fixture(scope="session")
def wheel(built) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory) -> Path:
    """The programs of a fresh environment that has the wheel, and borrows PyTorch and the rest from this one."""
    folder = tmp_path_factory.mktemp("user") / "venv"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    beside = [place for place in sys.path if place.endswith("site-packages")]
    (site / "beside.pth").write_text("\n".join(beside) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel], folder)
    return folder / "bin"
