"""Sources that were written to keep a reader busy: the scan takes time in proportion to their size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "import torch\nfrom torch.autograd import Function\n"
BODY = """
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
"""
BELOW = [f"class A{n}(A{n - 1}, B{n - 1}): pass\nclass B{n}(A{n - 1}, B{n - 1}): pass" for n in range(1, 50)]
SOURCES = {
    "a base with a long name": (f"class A({'a' * 200_000} x): pass\n", 0),
    "a line that says autograd often": (f"x = {'autograd ' * 100_000}\nclass A(B): pass\n", 0),
    "an assignment without an end": (f"x = autograd.{'Functio ' * 100_000}\nclass A(B): pass\n", 0),
    "brackets that do not close": (f"class A({'[' * 200_000}\n", 0),
    "nothing but blanks": (f"class {' ' * 1_000_000}\nclass A(B): pass\n", 0),
    "a diamond of bases": ("\n".join([f"{HEAD}class A0(Function):{BODY}", f"class B0(Function):{BODY}", *BELOW]), 100),
    "a chain of classes": (
        f"{HEAD}class A0(Function):{BODY}\n" + "".join(f"class A{n}(A{n - 1}): pass\n" for n in range(1, 5000)),
        5000,
    ),
    "a name with thousands of meanings": (
        f"{HEAD}class A(Function):{BODY}\n" + "".join(f"x = y{n}\nz = x\n" for n in range(5000)),
        1,
    ),
}


def scanned(folder: Path) -> dict:
    """The scan of a folder; a limit of ten times what a quiet machine needs ends one that hangs."""
    words = [sys.executable, "-m", "conformance", "scan", str(folder), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize(("source", "count"), SOURCES.values(), ids=SOURCES)
def test_a_source_that_would_keep_a_reader_busy_is_read(tmp_path: Path, source: str, count: int) -> None:
    (tmp_path / "m.py").write_text(source)
    (tmp_path / "other.py").write_text(f"{HEAD}class Good(Function):{BODY}")
    found = scanned(tmp_path)
    assert len([function for function in found["functions"] if function["file"].endswith("m.py")]) == count
    assert [function["name"] for function in found["functions"] if function["file"].endswith("other.py")] == ["Good"]
    assert not [skip for skip in found["skipped"] if count], "what is long is no reason to skip it"


def test_classes_that_inherit_through_hundreds_of_files_cost_no_other_file(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a999.py").write_text(f"{HEAD}class A999(Function):{BODY}")
    for n in range(999):
        name = f"{n + 1:03d}"
        (package / f"a{n:03d}.py").write_text(f"from pkg.a{name} import A{name}\nclass A{n:03d}(A{name}): pass\n")
    (package / "b.py").write_text(f"{HEAD}class Good(Function):{BODY}")
    found = scanned(package)
    assert "Good" in {function["name"] for function in found["functions"]}
