"""The wheel and the sdist, built as for a release and used as somebody else would."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.installed.commands import KEPT, ROOT, run

sys.path.insert(0, str(ROOT / "conf"))

from clause_ids import current

README = (ROOT / "README.md").read_text("utf-8")
# Tests of the registry and its command, of the suite and the docs' data, and of what surrounds the code.
SOME_TESTS = ["tests/test_clause_ids.py", "tests/test_gates.py", "tests/test_project.py"]
#: What is asked of a class that is told its spec, and what is said then: the first run of the README asks everything.
FEW = ("-k", "(gradient_is_the_sum or gradients_are_those_owed) and float64")
DIST = """
import torch
import torch.distributed as dist

from conformance import GROUP
from spec_impl.ksuit import AllGatherGradAutograd


class Gather(AllGatherGradAutograd):
    pass


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        y = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(y, group=group)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


def inputs():
    yield torch.randn(3, dtype=torch.float64, requires_grad=True), GROUP
"""


@pytest.fixture(scope="module")
def sdist(built, tmp_path_factory) -> Path:
    """The unpacked sdist."""
    (found,) = built.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(found) as archive:
        archive.extractall(folder, filter="data")
    (project,) = folder.iterdir()
    return project


@pytest.fixture(scope="module")
def package(programs, tmp_path_factory) -> Path:
    """A folder with the package that the README talks about."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "mypackage").mkdir()
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    square, _, call = example.partition("\n\ncheck(")
    arguments = call.removeprefix("Square, ").removesuffix(")\n")
    (folder / "mypackage" / "__init__.py").write_text("")
    (folder / "mypackage" / "layers.py").write_text(f"{square}\n\ndef inputs():\n    yield {arguments}\n")
    (folder / "mypackage" / "dist.py").write_text(DIST)
    return folder


def test_the_archives_are_well_formed(built, wheel, source):
    archives = sorted(built.iterdir())
    assert [path.suffix for path in archives] == [".whl", ".gz"]
    run([sys.executable, "-m", "twine", "check", "--strict", *archives], built)
    run([sys.executable, "-m", "check_wheel_contents", wheel], source)


def test_the_wheel_holds_the_two_packages_and_nothing_of_the_project(wheel, source):
    names = zipfile.ZipFile(wheel).namelist()
    files = (path for name in ("conformance", "spec_impl") for path in (source / name).rglob("*") if path.is_file())
    assert {str(path.relative_to(source)) for path in files} - set(names) == set()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "autograd_conformance", "conformance", "spec_impl"
    }  # fmt: skip


def test_what_runs_is_the_wheel(programs, package):
    found = run([programs / "python", "-c", "import conformance, spec_impl; print(conformance.__path__)"], package)
    assert str(programs.parent) in found


def commands() -> list[str]:
    """The commands of the README that are not of the checkout."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
    return [line.strip() for line in lines if line.startswith("conformance ")]


def test_the_readme_has_commands_to_try():
    assert {line.split()[1] for line in commands()} >= {"run", "scan", "explain"}


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_runs(programs, package, command):
    name, *words = shlex.split(command)
    if "--spec" in words:
        assert KEPT.search(run([programs / name, *words, *FEW], package, status=1))
    elif words[0] == "run":
        assert run([programs / name, *words, "--report", "report"], package)
        assert {path.name for path in (package / "report").iterdir()} >= {"report.json", "report.html", "junit.xml"}
        run([programs / "conformance", "verify", "report/report.json"], package)
    else:
        assert run([programs / name, *words], package)


def test_every_clause_is_listed(programs, package):
    listed = json.loads(run([programs / "conformance", "list", "--json"], package))
    assert {clause["id"] for clause in listed} == current()


def test_every_example_of_the_documentation_runs(programs, source, tmp_path):
    for name in ("docs", "tests"):
        shutil.copytree(source / name, tmp_path / name)
    for name in ("README.md", "conftest.py", "pyproject.toml"):
        shutil.copy(source / name, tmp_path)
    said = run([programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "README.md", "docs"], tmp_path)
    assert re.search(r"\d+ passed", said)


def test_the_sdist_has_every_file_of_the_project(source, sdist):
    there = {path.relative_to(sdist) for path in sdist.rglob("*")}
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    made = {"PKG-INFO", "setup.cfg"}
    assert {str(path) for path in wanted - there if "egg-info" not in str(path)} - made == {".gitignore"}


def test_tests_pass_in_the_sdist(programs, sdist):
    said = run([programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *SOME_TESTS], sdist)
    assert re.search(r"\d+ passed", said)
