"""Versions of PyTorch."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


def matches_version(versions: str, torch: str) -> bool:
    """Whether ``versions`` includes a PyTorch version; a nightly build counts as the coming release.

    >>> matches_version("torch < 2.14", "2.13.0+cpu"), matches_version("", "2.13.0")
    (True, True)

    Raises:
        ValueError: ``versions`` is no specifier.
    """
    wanted = SpecifierSet(versions.strip().removeprefix("torch").strip())
    try:
        return wanted.contains(Version(torch).base_version)
    except InvalidVersion:
        return True  # a build that says nothing of itself is held to everything
