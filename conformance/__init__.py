"""Does a ``torch.autograd.Function`` keep what its documentation promises? On one rank or many.

>>> import torch
>>> from conformance import check
>>> x = torch.randn(3, dtype=torch.float64, requires_grad=True)
>>> check(torch.sin, (x,)).subjects[0].verdict
'conforms'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.kit.process_groups import GROUP
    from conformance.kit.subject import Subject
    from conformance.kit.world import World
    from conformance.run.check import ConformanceError, check

__all__ = ["GROUP", "ConformanceError", "Subject", "World", "check"]

_HOMES = {
    "GROUP": "kit.process_groups",
    "ConformanceError": "run.check",
    "Subject": "kit.subject",
    "World": "kit.world",
    "check": "run.check",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: the command line and the plugin start without torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"conformance.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
