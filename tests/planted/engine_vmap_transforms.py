"""Engine bugs around vmap inside other transforms."""

from __future__ import annotations

import torch

from tests.planted._engine import around_member


def rule_not_used_within_a_transform() -> None:
    """Refuses a class's vmap inside another transform.

    Breaks: Function.vmap.transforms
    """

    def vmap(original, cls, *args):
        if torch._C._functorch.maybe_current_level() is not None:
            raise RuntimeError("one transform at a time")
        return original(*args)

    around_member("vmap", vmap)
