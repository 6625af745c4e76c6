"""The library is compiled once, whoever asks, and what is missing is said in a line."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.emulated import BuildError, build
from conformance.emulated import library as compiling


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def compiler(monkeypatch):
    """Stands in for the compiler, and counts how often it is called."""
    calls = []

    def compile_library(compiler, work, log):
        calls.append(compiler)
        library = work / "_emulated.so"
        library.write_text("compiled")
        return library

    monkeypatch.setattr(compiling, "_compile", compile_library)
    return calls


def test_the_second_time_nothing_is_compiled(cache, compiler):
    said = []
    library = build(said.append)
    assert library.read_text() == "compiled"
    assert library.is_relative_to(cache / "autograd-conformance")
    assert build(said.append) == library
    assert len(compiler) == len(said) == 1
    assert said[0].startswith("compiling the emulated device, once, about ")


def test_of_many_at_the_same_time_one_compiles(cache, compiler):
    with ThreadPoolExecutor(8) as pool:
        libraries = list(pool.map(lambda _: build(), range(8)))
    assert len(set(libraries)) == 1
    assert len(compiler) == 1


def test_other_sources_and_other_releases_have_a_library_of_their_own(cache, compiler, tmp_path, monkeypatch):
    first = build()
    monkeypatch.setattr(compiling.importlib.metadata, "version", lambda name: "9.9.9")
    second = build()
    changed = tmp_path / "csrc"
    changed.mkdir()
    (changed / "memory.cpp").write_text("int x;")
    monkeypatch.setattr(compiling, "SOURCES", changed)
    assert len({first, second, build()}) == 3


def test_a_missing_compiler_is_told_with_what_to_install(cache, monkeypatch):
    monkeypatch.setenv("PATH", str(cache))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(BuildError, match=r"^the emulated device needs a C\+\+ compiler, .* install g\+\+, or set CXX$"):
        build()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match="there is no no-such-compiler"):
        build()


def test_missing_headers_of_python_are_told_with_what_to_install(cache, monkeypatch):
    monkeypatch.setattr(compiling.sysconfig, "get_path", lambda name: str(cache))
    with pytest.raises(BuildError, match=r"Python\.h: install python3-dev$"):
        build()


def test_another_system_than_linux_is_refused(cache, monkeypatch):
    monkeypatch.setattr(compiling.platform, "system", lambda: "Darwin")
    with pytest.raises(BuildError, match="needs Linux, and this is Darwin"):
        build()


def test_an_error_of_the_compiler_is_told_in_a_line_and_kept_in_a_log(cache, tmp_path, monkeypatch):
    broken = tmp_path / "csrc"
    broken.mkdir()
    (broken / "broken.cpp").write_text("int x = nothing;\n")
    monkeypatch.setattr(compiling, "SOURCES", broken)
    with pytest.raises(BuildError, match=r"could not be compiled, see (.*): .*broken\.cpp.*error.*nothing") as failure:
        build()
    assert "\n" not in str(failure.value)
    log = Path(str(failure.value).split("see ")[1].split(": ")[0])
    assert "broken.cpp" in log.read_text()
    assert not list(log.parent.glob("*.so"))


def test_importing_the_package_imports_no_torch():
    code = "import sys, conformance.emulated; sys.exit('torch' in sys.modules or 'setuptools' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
