"""Find the source of a target: an installed package, a folder, or a file. Nothing is imported."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.core.errors import UsageError

LEFT_OUT = {"__pycache__", "node_modules"}


@dataclass(frozen=True)
class Place:
    """Files and folders to read. ``root`` is what reported paths are relative to."""

    root: Path
    tops: tuple[Path, ...]

    def named(self, path: Path) -> str:
        """Name a file or folder as in reports."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix()


def locate(target: str) -> Place:
    """Find the source of ``target``: a path, a dotted module name, or the name of an installed distribution.

    Raises:
        UsageError: nothing of that name is there, or it has no Python source.
    """
    if not target.strip() or "\0" in target:
        raise UsageError("nothing to scan: name an installed package, or give the path of a folder or file")
    if os.sep in target or target.endswith(".py") or target in {".", ".."}:
        return _by_path(Path(target))
    place = _by_module(target) or _by_distribution(target)
    if place is not None:
        return place
    if Path(target).exists():
        return _by_path(Path(target))
    raise UsageError(f"{target!r} is neither an installed package nor a path: install it, or give its folder")


def sources(place: Place, refused: Callable[[OSError], object] | None = None) -> Iterator[Path]:
    """Yield every Python file of a place, sorted; hidden folders and virtual environments in it are left out.

    Args:
        place: where to look.
        refused: called with the error for each folder that cannot be read, which is left out.
    """
    for top in place.tops:
        if os.path.isfile(top):
            yield top
            continue
        for folder, folders, files in os.walk(top, onerror=refused):
            folders[:] = sorted(name for name in folders if _is_source_folder(Path(folder, name)))
            yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


def surroundings(place: Place) -> Iterator[Path]:
    """Yield the other files of the packages around a place: classes may inherit from there."""
    tops = {_outermost(top) for top in place.tops} - set(place.tops)
    inside = set(sources(place))
    yield from (path for path in sources(Place(place.root, tuple(sorted(tops)))) if path not in inside)


def _outermost(path: Path) -> Path:
    """Return the folder of the package that a file or folder belongs to; itself if it is in none."""
    while _is_package(path.parent):
        path = path.parent
    return path


def module_name(file: Path) -> str:
    """Return the dotted name under which a file would be imported, going by the ``__init__.py`` files."""
    parts = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    while _is_package(folder):
        parts.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(parts)) or file.stem


def _is_package(folder: Path) -> bool:
    return os.path.isfile(folder / "__init__.py")  # which does not raise if a folder cannot be read


def _is_source_folder(folder: Path) -> bool:
    name = folder.name
    return not name.startswith(".") and name not in LEFT_OUT and not os.path.exists(folder / "pyvenv.cfg")


def _by_path(path: Path) -> Place:
    try:
        top = path.resolve()
        if not top.exists():
            raise UsageError(f"there is no file or folder {str(path)!r}")
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error
    here = Path.cwd()
    return Place(here if top.is_relative_to(here) else top.parent, (top,))


def _by_module(name: str) -> Place | None:
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    top, *rest = name.split(".")
    spec = _spec(top)
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        origin = Path(spec.origin or "")
        if rest or origin.suffix != ".py" or not origin.is_file():
            raise UsageError(f"{name!r} has no Python source to read")
        return Place(origin.parent, (origin,))
    locations = [Path(location) for location in spec.submodule_search_locations]
    tops = [found for location in locations for found in _under(location, rest)]
    if not tops:
        raise UsageError(f"{name!r} is not in the installed package {top!r}, or has no Python source to read")
    return Place(locations[0].parent, tuple(tops))


def _spec(top: str) -> importlib.machinery.ModuleSpec | None:
    """Find a top-level name, first in the current directory, without running code of the package."""
    try:
        here = importlib.machinery.PathFinder.find_spec(top, [str(Path.cwd())])
        # A bare folder of that name must not hide the installed package.
        if here is not None and (here.origin or here.submodule_search_locations is None):
            return here
        return importlib.util.find_spec(top) or here
    except (ImportError, ValueError, AttributeError):
        return None


def _under(location: Path, rest: list[str]) -> Iterator[Path]:
    path = location.joinpath(*rest)
    if path.is_dir():
        yield path
    elif path.with_suffix(".py").is_file():
        yield path.with_suffix(".py")


def _by_distribution(name: str) -> Place | None:
    """Find what a distribution such as ``megatron-core`` installs, if its package has another name."""
    try:
        files = importlib.metadata.distribution(name).files or []
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    paths = [Path(str(file.locate())) for file in files if file.suffix == ".py" and ".." not in file.parts]
    if not paths:
        raise UsageError(f"the installed distribution {name!r} has no Python source to read")
    root = Path(str(importlib.metadata.distribution(name).locate_file("")))
    return Place(root, tuple(sorted(path for path in paths if path.is_file())))
