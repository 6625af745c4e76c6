"""Find a specification: a folder of ``spec_impl``, or of an installed package, which an entry point names.

A package registers its specification in its pyproject.toml::

    [project.entry-points."conformance.specs"]
    GatedSum = "mypackage_spec.gated"

The folder holds ``reference.py`` (the clauses), ``spec.py``, ``test_*.py`` and, for readers, ``page.toml``; the
reference of a folder of ``spec_impl`` is its ``__init__.py``. Nothing of it is imported here. Entry points are looked
up only for a name that is not one of this project's specs; the modules for that are imported late, since most commands
do not need them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.core.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "conformance.specs"
#: The module with the documented class and its clauses, and the one with the object ``specification``.
REFERENCE, SPEC = "reference", "spec"
#: The file with the documented class, in a folder of ``spec_impl``.
OURS = "__init__.py"


#: What every spec rests on has no folder: it is stated in the modules of ``spec_impl`` and tested by the suite.
HOUSE = ("Function", "Collective")


class NoSuchSpec(UsageError):
    """No installed package registers a specification of that name."""


@dataclass(frozen=True)
class Home:
    """The folder of a specification.

    Attributes:
        name: of the specification.
        package: the dotted name of its folder.
        folder: where that is.
        distribution: the name of the installed distribution that registers it; empty for one of ours.
        version: of the distribution.
        page: the address of the page that states its clauses; empty if ``page.toml`` names none.
        reference: the name of the file that states the clauses.
    """

    name: str
    package: str
    folder: Path
    distribution: str = ""
    version: str = ""
    page: str = ""
    reference: str = f"{REFERENCE}.py"

    @property
    def origin(self) -> str:
        """Return the distribution and its version, for readers."""
        return f"{self.distribution} {self.version}"


def spec_impl() -> tuple[Path, ...]:
    """Return the folder of the package ``spec_impl``, after that of its mutant, if there is one."""
    spec = importlib.util.find_spec("spec_impl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the package spec_impl, which holds the clauses, is not installed")
    return tuple(map(Path, spec.submodule_search_locations))


@cache
def ours() -> Mapping[str, Home]:
    """Return the specifications of this project that are folders, by name."""
    found = {}
    for folder in (file.parent for place in spec_impl() for file in sorted(place.glob(f"*/{SPEC}.py"))):
        name = (folder / OURS).read_text("utf-8").partition('\nSPEC = "')[2].partition('"')[0]
        found[name] = Home(name, f"spec_impl.{folder.name}", folder, reference=OURS)
    return found


def find(name: str, option: str = "") -> Home:
    """Find the home of a specification; our own names win.

    Args:
        name: of the specification.
        option: the option that named it, for the message.

    Raises:
        NoSuchSpec: none is ours, and no installed package registers it.
        UsageError: several packages do, or its folder cannot be read.
    """
    if name in ours():
        return ours()[name]
    found = _registered(name)
    if len(found) == 1:
        return _home(name, *found)
    if found:
        both = " and ".join(sorted(str(point.dist and point.dist.name) for point in found))
        raise UsageError(f"spec {name!r} is registered by {both}: uninstall all but one")
    import difflib

    known = [*names(), *sorted({point.name for point in _points()} - {*names()})]
    near = next((each for each in known if each.lower() == name.lower()), "") or "".join(
        difflib.get_close_matches(name, known, 1)
    )
    hint = f"did you mean {near}? " if near else ""
    given = f"{option} {name!r}: no such spec" if option else f"no spec named {name!r}"
    raise NoSuchSpec(f"{given}; {hint}there are {', '.join(known)}")


def names() -> tuple[str, ...]:
    """Return the names of our own specs, those without a folder first."""
    return (*HOUSE, *ours())


def homes(named: Iterable[str]) -> tuple[Home, ...]:
    """Return the homes of those of the named specs that are folders, each once."""
    return tuple(find(name) for name in dict.fromkeys(named) if name not in HOUSE)


def outside(named: Iterable[str]) -> tuple[Home, ...]:
    """Return the homes of those of the named specs that are not part of this project, each once."""
    return tuple(find(name) for name in dict.fromkeys(named) if name not in names())


def around(name: str) -> set[str]:
    """Find the specifications whose package has this dotted name, contains it, or is inside it."""
    name = f"{name.partition('::')[0]}."
    values = {point.name: f"{point.value}." for point in _points()}
    values |= {spec: f"{home.package}." for spec, home in ours().items()}
    return {spec for spec, value in values.items() if value.startswith(name) or name.startswith(value)}


def _points() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _registered(name: str) -> list[EntryPoint]:
    """Return the entry points of a name, one for each distribution: an editable one may be found twice."""
    points = _points().select(name=name)
    return [*{(point.dist and point.dist.name, point.value): point for point in points}.values()]


@cache
def _home(name: str, point: EntryPoint) -> Home:
    distribution, version = (point.dist.name, point.dist.version) if point.dist else ("", "")
    where = f"spec {name} ({distribution} {version})"
    folder = _folder(point.value)
    for file in (f"{REFERENCE}.py", f"{SPEC}.py"):
        if folder is None or not (folder / file).is_file():
            raise UsageError(f"{where}: its entry point names {point.value}, and there is no {file} in such a package")
    assert folder is not None
    facts = facts_in(folder, where)
    _require_suite(str(facts.get("min_suite", "0")), where)
    return Home(name, point.value, folder, distribution, version, str(facts.get("page", "")))


def _folder(package: str) -> Path | None:
    """Find the folder of a package without importing the packages around it."""
    whole, *inner = package.split(".")
    try:
        found = importlib.util.find_spec(whole)
        for part in inner:
            if found is None:
                return None
            whole = f"{whole}.{part}"
            found = PathFinder.find_spec(whole, found.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    places = [Path(place) for place in (found and found.submodule_search_locations) or ()]
    return next((place for place in places if (place / f"{SPEC}.py").is_file()), places[0] if places else None)


def facts_in(folder: Path, where: str) -> Mapping[str, Any]:
    """Return what the ``page.toml`` of a folder says for readers; nothing if there is none.

    Raises:
        UsageError: it cannot be read; the message begins with ``where``.
    """
    import tomllib

    file = folder / "page.toml"
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: {file}: {error}") from None


def _require_suite(least: str, where: str) -> None:
    """Raise UsageError unless this suite is new enough."""
    from packaging.version import InvalidVersion, Version

    from conformance.core.versions import suite_version

    try:
        old = Version(suite_version()) < Version(least)
    except InvalidVersion:
        raise UsageError(f"{where}: min_suite = {least!r} in page.toml is no version") from None
    if old:
        raise UsageError(f"{where} needs autograd-conformance {least} or newer; this is {suite_version()}")
