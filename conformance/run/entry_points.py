"""Find subjects that installed packages register, each by an entry point of the group ``conformance.subjects``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points

from packaging.utils import canonicalize_name

from conformance.core.errors import UsageError

GROUP = "conformance.subjects"


def registered(packages: Iterable[str]) -> list[str]:
    """Return the references of all subjects that these packages register, sorted by name.

    A package registers a subject in its pyproject.toml::

        [project.entry-points."conformance.subjects"]
        gather = "mypackage.conformance:gather"

    Raises:
        UsageError: a package registers none; the message names the packages that do.
    """
    points = list(entry_points(group=GROUP))
    found = []
    for package in packages:
        name = canonicalize_name(package)
        own = sorted(point.value for point in points if point.dist and canonicalize_name(point.dist.name) == name)
        if not own:
            others = sorted({point.dist.name for point in points if point.dist})
            hint = f"these do: {', '.join(others)}" if others else "no installed package does"
            raise UsageError(f"--from {package!r}: no installed package of that name registers subjects; {hint}")
        found += own
    return found
