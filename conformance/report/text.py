"""Make texts from a subject fit for a report: short, and visible."""

from __future__ import annotations

import math
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

from conformance.core.output import visible
from conformance.core.prose import TEXT_LIMIT


def address(page: str) -> str:
    """Return the whole address of a page of the docs.

    ``CONFORMANCE_DOCS`` names the site, or else the installed package does. If neither does, the address is relative
    to the site. A specification from outside has its own site.
    """
    if page.startswith(("http://", "https://")):
        return page
    site = os.environ.get("CONFORMANCE_DOCS", "")
    if not site.startswith(("http://", "https://", "file://")):
        site = _documentation()
    return f"{site.rstrip('/')}/{page}" if site else page


@cache
def _documentation() -> str:
    """Return the documentation address in the metadata of the installed package."""
    try:
        urls = metadata("autograd-conformance").get_all("Project-URL") or []
    except PackageNotFoundError:
        urls = []
    return next((url for label, _, url in (each.partition(", ") for each in urls) if label == "Documentation"), "")


def first_line(text: str) -> str:
    r"""Return the first line that is not blank.

    >>> first_line("  gradient of x\nactual: 1")
    'gradient of x'
    """
    lines = (line.strip() for line in visible(text[:TEXT_LIMIT]).split("\n"))
    return next(filter(None, lines), "")


def one_line(text: str, limit: int = 200) -> str:
    """Return the first line with words in it, clipped at its end, after a word if there is one.

    >>> one_line("a smaller sample or one away from kinks", limit=24), one_line("x" * 30, limit=8)
    ('a smaller sample or...', 'xxxxx...')
    """
    first = first_line(text)
    if len(first) <= limit:
        return first
    cut = first[: limit - 3]
    return f"{cut[: cut.rfind(' ', limit // 2)] if ' ' in cut[limit // 2 :] else cut}..."


def plain(data: Any) -> Any:
    """Make every text in a JSON value visible, and every number valid JSON."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, float):
        return round(data, 6) if math.isfinite(data) else 0.0
    if isinstance(data, dict):
        return {visible(str(key)): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    return data
