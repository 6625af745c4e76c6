"""How examples are run.

In docstrings, and in blocks of Python that begin with a prompt: as doctests. In Markdown besides:

- ``python`` blocks run one after the other, with one namespace for each page;
- blocks with a caption are files: they are written to a folder of the page, where its commands run;
- ``console`` blocks are commands after ``$``, each followed by the whole of what it prints. What differs from one
  machine or release to the next, such as seconds and counts of clauses, need not be the same; all else must be.
  ``python -m tests.examples PAGE...`` runs the commands of pages again and writes down what they print now;
- ``text`` blocks are excerpts: every line stands, in this order, in a ``console`` block of some page, or in spec_impl;
- ``sh`` blocks need something that is not here, such as a cluster: only their syntax is checked.
"""

from __future__ import annotations

import configparser
import doctest
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.document import PythonDocStringDocument
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.myst.lexers import DirectiveLexer
from sybil.parsers.rest import DocTestParser

import spec_impl
from conformance.emulated import build

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LONGEST = 120
ROOT = Path(__file__).parents[1]


class FileParser:
    """Blocks with a caption."""

    def __call__(self, document: Document) -> Iterable[Region]:
        """Called for every page."""
        for region in DirectiveLexer(directive="code-block", arguments=".+")(document):
            name = region.lexemes["options"].get("caption")
            if name:
                region.parsed = (name, str(region.lexemes["source"]))
                region.evaluator = write_file
                yield region


class PlainPython(PythonCodeBlockParser):
    """Blocks of Python without a caption: with one they are files."""

    def __call__(self, document: Document) -> Iterable[Region]:
        """Called for every page."""
        files = {region.start for region in FileParser()(document)}
        return (region for region in super().__call__(document) if region.start not in files)


def folder_of(example: Example) -> Path:
    """Where the files of a page are written and its commands run."""
    if "_folder" not in example.namespace:
        example.namespace["_folder"] = tempfile.TemporaryDirectory(prefix="examples-")
    folder = Path(example.namespace["_folder"].name)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return folder


def write_file(example: Example) -> str | None:
    """Write a file that a page shows, once it is seen to be well-formed."""
    name, text = example.parsed
    if name.endswith(".py"):
        compile(text, name, "exec")
    elif name.endswith(".toml"):
        tomllib.loads(text)
    elif name.endswith(".ini"):
        configparser.ConfigParser(interpolation=None).read_string(text)
    elif name.endswith(".yml"):
        pytest.importorskip("yaml").safe_load(text)
    path = folder_of(example) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return None


#: What may differ between two machines, releases of PyTorch, or versions of the suite.
VOLATILE = {
    r"(?m)^\d+ of \d+ tests: .*$": "",  # a run that takes long says how far it is
    r"\d+\.\d+\.\d+(\+\w+)?": "VERSION",
    r"\b\d+(\.\d+)? ?s\b": "SECONDS",
    r"\b\d+ (clauses of PyTorch itself and) \d+": r"SOME \1 SOME",
    r"\b\d+ of \d+ engine clauses": "ALL engine clauses",
    r"\b\d+/\d+\b": "KEPT",
    r"not applicable \d+": "not applicable SOME",
    r"\b\d+ +(skipped|not selected)": r"SOME \1",
    r"\band \d+ more": "and more",
    r"/\S*/(?=\w+\.py)": "FOLDER/",
    r"0x[0-9a-f]+": "ADDRESS",
}


def run_commands(example: Example) -> str | None:
    """Run the commands of a block one by one, and compare what each prints."""
    if "--device emulated" in example.parsed:
        build()  # the first run on a machine compiles the device, which takes long, and says so
    for command, expected in commands(str(example.parsed)):
        actual = run(command, folder_of(example))
        if lasting(actual) != lasting(expected):
            page = Path(example.path).relative_to(ROOT)
            return (
                f"$ {command}\nexpected:\n{expected}\nactual:\n{actual}\nmend it with: python -m tests.examples {page}"
            )
    return None


def commands(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what is printed under it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def lasting(text: str) -> list[str]:
    """The words of an output, without what may differ."""
    for pattern, name in VOLATILE.items():
        text = re.sub(pattern, name, text)
    return text.split()


def run(command: str, folder: Path) -> str:
    """What a command prints, in the order in which it does."""
    around = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    around["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{around['PATH']}"
    for name in [name for name in around if name.startswith(("PYTEST_", "COV_"))]:
        del around[name]
    done = subprocess.run(
        command, shell=True, cwd=folder, env=around, text=True, timeout=LONGEST,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, executable="/bin/bash",
    )  # fmt: skip
    return done.stdout


def is_excerpt(example: Example) -> str | None:
    """Compare an excerpt with what other examples print, or with the docstring that it is from."""
    sources = [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "guides").glob("*.md"),
        *Path(spec_impl.__file__).parent.rglob("*.py"),
    ]
    wanted = [line.strip() for line in str(example.parsed).splitlines() if line.strip()]
    if any(_in_order(wanted, text) for path in sources for text in _shown_by(path)):
        return None
    return f"no console block and no module of spec_impl has these lines:\n{example.parsed}"


def _shown_by(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return [text] if path.suffix == ".py" else re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def _in_order(wanted: list[str], text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    return all(line in lines for line in wanted)  # each search goes on where the one before it ended


def check_syntax(example: Example) -> str | None:
    """Read commands without running them."""
    done = subprocess.run(["bash", "-n"], input=str(example.parsed), text=True, capture_output=True)
    return done.stderr or None


_docstrings = Sybil(
    parsers=[DocTestParser(FLAGS)], path=str(ROOT), patterns=["*.py"], document_types={".py": PythonDocStringDocument}
).pytest()
_pages = Sybil(
    parsers=[
        FileParser(),
        PlainPython(doctest_optionflags=FLAGS),
        CodeBlockParser("console", run_commands),
        CodeBlockParser("text", is_excerpt),
        CodeBlockParser("sh", check_syntax),
    ],
    path=str(ROOT),
    patterns=["*.md"],
).pytest()


def collect(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """What ``pytest_collect_file`` gives for a file with examples."""
    collector = _docstrings if file_path.suffix == ".py" else _pages
    return collector(file_path, parent)


def rewrite(page: Path) -> None:
    """Run a page's commands, and write what they print under them."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="examples-") as folder:
        blocks = r"^```(?:\{code-block\} \w+\n:caption: (?P<name>\S+)\n\n(?P<file>.*?)|console\n(?P<console>.*?))^```$"
        for block in re.finditer(blocks, text, re.MULTILINE | re.DOTALL):
            if block["name"]:
                Path(folder, block["name"]).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, block["name"]).write_text(block["file"], encoding="utf-8")
                continue
            printed = [
                f"$ {command}\n{run(command, Path(folder)).strip(chr(10))}\n"
                for command, _ in commands(block["console"])
            ]
            text = text.replace(block[0], f"```console\n{''.join(printed)}```", 1)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
