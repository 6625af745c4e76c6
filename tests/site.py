"""The site, built as `make docs` builds it, and what tests ask of it."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HTML = ROOT / "docs" / "_build" / "html"
#: Where the specification of operators is installed for its own site.
SPECS = HTML.parent / "specs"
SPHINX = ("-q", "-b", "html", "-W", "--keep-going")
NEEDED = ("sphinx", "autoapi", "furo", "myst_parser", "sphinx_copybutton")


@cache
def built() -> Path:
    """The folder of the built site; one process builds, others wait for it."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"building the site needs {', '.join(missing)}: pip install -r conf/requirements-docs.txt")
    HTML.parent.mkdir(parents=True, exist_ok=True)
    with (HTML.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _run("sphinx", *SPHINX, "-n", "-c", "conf", "docs", str(HTML))
        if not (HTML / "operator" / "index.html").exists():
            pip = ("install", "--quiet", "--no-deps", "--no-build-isolation", "--upgrade", "--target", str(SPECS))
            _run("pip", *pip, "specs/operator")
            _run("sphinx", *SPHINX, "specs/operator/docs", str(HTML / "operator"), PYTHONPATH=str(SPECS))
    return HTML


def _run(module: str, *words: str, **environment: str) -> None:
    """Run a module of this Python as a command, in the root of the project."""
    command, env = [sys.executable, "-m", module, *words], {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=env, text=True, capture_output=True)
    if done.returncode:
        pytest.fail(f"the site does not build:\n{done.stdout[-2000:]}{done.stderr[-6000:]}", pytrace=False)


class Page(HTMLParser):
    """The ids, links and assets of a page, and the text of each signature by its id."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.twice: set[str] = set()
        self.signatures: dict[str, str] = {}
        self._inside = ""
        self._depth = 0
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        identifier = found.get("id", "")
        if identifier:
            self.twice |= {identifier} & self.ids
            self.ids.add(identifier)
        self.links += [found[name] for name in ("href", "src") if found.get(name)]
        if tag == "dt" and identifier:
            self._inside = identifier
            self.signatures[identifier] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "dt":
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.signatures[self._inside] += data


@cache
def page(path: Path) -> Page:
    """A page, read once."""
    return Page(path)
