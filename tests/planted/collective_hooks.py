"""Planted bugs: collectives whose ``spmd_typecheck`` declares the wrong types."""

from __future__ import annotations

from tests.correct import collective_hooks as right
from tests.correct._collectives import matrix_and_group

SPEC = "Collective"


inputs = matrix_and_group


class GatherForOneLossTypedForMany(right.GatherForOneLoss):
    """Declares in its hook that each rank may have its own loss, but backward returns this rank's slice only.

    Breaks: Collective.backward.gradient
    """

    @staticmethod
    def spmd_typecheck(*, x, group):
        from spmd_types import R, S, rules

        return rules.all_gather(x, group, src=S(0), dst=R)
