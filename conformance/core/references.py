"""References: how an object is named on a command line."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import PurePath

from conformance.core.errors import UsageError

#: The folder of projects that keep their packages out of the current directory.
SRC = "src"
#: Longest reference (characters): reports and files are named by it.
LONGEST = 200


def check_reference(reference: str, option: str = "") -> None:
    """Raise UsageError unless the text, which an option may have named, reads ``module:attribute``."""
    module, colon, path = reference.partition(":")
    parts = [*module.split("."), *path.split(".")]
    given = f"{option}{option and ' '}"
    if len(reference) > LONGEST:
        said = f"{given}{reference[:40]!r}… has {len(reference)} characters; give it a name of at most {LONGEST}"
        raise UsageError(said)
    if not colon or not all(part.isidentifier() for part in parts):
        hint = _meant(module, path) or f"such as mypackage.layers:{'inputs' if option else 'MyFunction'}"
        raise UsageError(f"{given}{reference!r} is not of the form module:attribute, {hint}")


def of_file(module: str, path: str) -> str:
    """Give a hint if a file was named in place of a module; empty if none was.

    >>> of_file("./mypackage/layers.py", "Exp"), of_file("layers.py", ":Exp")
    ('give a module, not a file: mypackage.layers:Exp', 'give a module, not a file: layers:Exp')
    >>> of_file("src/mypackage/layers.py", "Exp")
    'give a module, not a file: mypackage.layers:Exp'
    >>> of_file("layers.py", "")
    'give a module and what it holds, not a file: layers:MyFunction'
    """
    file, held = PurePath(module), path.lstrip(":")
    with suppress(OSError):  # the current directory may have been removed
        if file.is_absolute() and file.is_relative_to(here := os.getcwd()):
            file = file.relative_to(here)
    if file.suffix != ".py":
        return ""
    parts = file.with_suffix("").parts
    is_package = os.path.exists(os.path.join(SRC, "__init__.py"))
    parts = parts[1:] if parts[0] == SRC and len(parts) > 1 and not is_package else parts
    if not all(part.isidentifier() for part in parts):
        return ""
    what = "a module, not a file" if held else "a module and what it holds, not a file"
    return f"give {what}: {'.'.join(parts)}:{held or 'MyFunction'}"


def not_installed(name: str) -> str:
    """Give a hint if a module of this name lies in the folder src; empty if none does."""
    if not any(os.path.exists(os.path.join(SRC, file)) for file in (name, f"{name}.py")):
        return ""
    return f"it lies in {SRC}: install your package (pip install -e .), or set PYTHONPATH={SRC}"


def _meant(module: str, path: str) -> str:
    """Say what was probably meant: a file for a module, or a dot for the colon."""
    package, dot, name = module.rpartition(".")
    if dot and not path and name[:1].isupper() and all(part.isidentifier() for part in module.split(".")):
        return f"did you mean {package}:{name}?"
    return of_file(module, path)
