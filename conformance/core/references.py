"""References: how an object is named on a command line."""

from __future__ import annotations

from pathlib import PurePath

from conformance.core.errors import UsageError


def check_reference(reference: str) -> None:
    """Raise UsageError unless the text reads ``module:attribute``."""
    module, colon, path = reference.partition(":")
    parts = [*module.split("."), *path.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        hint = _meant(module, path) or "for example mypackage.layers:MyFunction"
        raise UsageError(f"{reference!r} does not read module:attribute, {hint}")


def of_file(module: str, path: str) -> str:
    """What to say where a file was named in place of a module; empty where none was.

    >>> of_file("./mypackage/layers.py", "Exp")
    'give a module, not a file: mypackage.layers:Exp'
    """
    name = ".".join(PurePath(module.removesuffix(".py")).parts)
    right = module.endswith(".py") and path and all(part.isidentifier() for part in name.split("."))
    return f"give a module, not a file: {name}:{path}" if right else ""


def _meant(module: str, path: str) -> str:
    """What was probably meant: a file for a module, or a dot for the colon."""
    package, dot, name = module.rpartition(".")
    if dot and not path and name[:1].isupper() and all(part.isidentifier() for part in module.split(".")):
        return f"did you mean {package}:{name}?"
    return of_file(module, path)
