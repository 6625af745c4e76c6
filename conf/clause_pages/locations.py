"""Warnings name the docstring they are about, not the page that autoapi made of it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.logging import NAMESPACE

from clause_pages.record import DOCS, ROOT

GENERATED = str(DOCS / "api")


def setup(app: Sphinx) -> None:
    """Filter what Sphinx writes."""
    for handler in logging.getLogger(NAMESPACE).handlers:
        handler.addFilter(_Sources())


class _Sources(logging.Filter):
    """Puts the source in place of the generated page. It comes after Sphinx's own filter, which makes places text."""

    def filter(self, record: logging.LogRecord) -> bool:
        place = getattr(record, "location", None)
        if isinstance(place, str) and place.startswith(GENERATED):
            record.location = source_of(place)  # type: ignore[attr-defined]
        return True


def source_of(place: str) -> str:
    """File and line of the docstring that a generated page shows at ``PAGE.rst:LINE``; the place itself if unknown."""
    found = re.match(r"(.+?\.rst)(?::docstring of [^:]+)?(?::(\d+))?", place)
    if not found or not Path(found[1]).exists():
        return place
    lines = Path(found[1]).read_text("utf-8").splitlines()
    source = _module(Path(found[1]))
    if source is None:
        return place
    code = [line.strip() for line in source.read_text("utf-8").splitlines()]
    # The line itself may be made by a template: then the nearest before it that stands in the source.
    for number in range(min(int(found[2] or 1), len(lines)), 0, -1):
        text = lines[number - 1].strip()
        if len(text) > 3 and code.count(text) == 1:
            return f"{source.relative_to(ROOT)}:{code.index(text) + 1}"
    return str(source.relative_to(ROOT))


def _module(page: Path) -> Path | None:
    """The source of the module that a generated page documents."""
    module = ROOT / page.parent.relative_to(GENERATED)
    return next((path for path in (module.with_suffix(".py"), module / "__init__.py") if path.exists()), None)
