"""The site, built as `make docs` builds it, and what tests ask of it."""

from __future__ import annotations

import fcntl
import importlib.util
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HTML = ROOT / "docs" / "_build" / "html"
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
        command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-W", "--keep-going", "-n", "-c", "conf", "docs"]
        done = subprocess.run([*command, str(HTML)], cwd=ROOT, text=True, capture_output=True)
    if done.returncode:
        pytest.fail(f"the site does not build:\n{done.stdout[-2000:]}{done.stderr[-6000:]}", pytrace=False)
    return HTML


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
