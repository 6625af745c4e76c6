"""The guide to specifications, followed with the wheel from its first command to its last."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.installed.commands import KEPT, ROOT, run

GUIDE = (ROOT / "docs/guides/write-a-specification.md").read_text("utf-8")


@pytest.fixture(scope="module")
def author(programs, tmp_path_factory) -> Path:
    """A folder with somebody's class; what the guide tells them to install is installed from there."""
    folder = tmp_path_factory.mktemp("author")
    (theirs,) = re.findall(r":caption: mypackage.py\n\n(.*?)```", GUIDE, re.DOTALL)
    (folder / "mypackage.py").write_text(theirs)
    return folder


def test_the_guide_to_specifications_goes_from_nothing_to_a_page(programs, author):
    """Every command of it, in its order: what it says of itself holds with the wheel, outside the tree."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()]
    assert {line.split()[1] for line in lines if line.startswith("conformance ")} == {
        "spec", "list", "explain", "run", "prove"
    }  # fmt: skip
    for line in lines:
        name, *words = shlex.split(line)
        if name == "pip":
            pip = [sys.executable, "-m", "pip", "--python", programs / "python", "--disable-pip-version-check"]
            run([*pip, *words, "--quiet", "--no-deps", "--no-index", "--no-build-isolation"], author)
        elif name == "python":
            run([programs / name, *words], author)
        elif name == "pytest":
            assert "3 passed" in run([programs / "python", "-m", name, *words, "-p", "no:cacheprovider"], author)
        elif words[0] == "run":  # all tests of every Function take a while, and are other tests' business
            assert KEPT.search(run([programs / name, *words, "-k", "hides_adds_nothing"], author, status=1))
        else:
            said = run([programs / name, *words], author)
            if words[0] == "prove":
                assert "7 of 7 mutants noticed" in said, said
                assert "GatedSum: 1 clause, 1 planted bug, 0 problems" in said, said
    assert 'id="clause-GatedSum.forward.closed"' in (author / "site" / "index.html").read_text("utf-8")
