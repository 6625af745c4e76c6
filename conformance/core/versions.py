"""Versions of PyTorch, and of this package."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


def matches_version(versions: str, torch: str) -> bool:
    """Tell whether ``versions`` includes a PyTorch version; a nightly build counts as the coming release.

    >>> matches_version("torch < 2.14", "2.13.0+cpu"), matches_version("", "2.13.0")
    (True, True)

    Raises:
        ValueError: ``versions`` is not a specifier.
    """
    wanted = SpecifierSet(versions.strip().removeprefix("torch").strip())
    try:
        return wanted.contains(Version(torch).base_version)
    except InvalidVersion:
        return True  # a build without a version must keep every clause


def suite_version() -> str:
    """Return the installed version of this package."""
    try:
        return version("autograd-conformance")
    except PackageNotFoundError:
        return "0"


def is_version(text: str) -> bool:
    """Tell whether a text can be a version.

    >>> is_version("2.15.0a0+git1f2e3d"), is_version("the newest")
    (True, False)
    """
    return bool(re.fullmatch(r"[0-9]+(\.[0-9]+)*[\w.+-]{0,60}", text))
