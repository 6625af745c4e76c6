"""References: how an object is named on a command line."""

from __future__ import annotations

from conformance.core.errors import UsageError


def check_reference(reference: str) -> None:
    """Raise UsageError unless the text reads ``module:attribute``."""
    module, colon, path = reference.partition(":")
    parts = [*module.split("."), *path.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise UsageError(f"{reference!r} does not read module:attribute, for example mypackage.layers:MyFunction")
