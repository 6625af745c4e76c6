"""Planted bugs: collectives whose jvp is not the derivative over all ranks together."""

from __future__ import annotations

import torch.distributed as dist

from tests.correct import collective_tangents as right
from tests.correct._collectives import matrix_and_group, summed

SPEC = "Collective"


inputs = matrix_and_group


class TangentNotAddedUp(right.Reduce):
    """Returns this rank's own tangent without the sum over ranks.

    Breaks: Function.jvp.tangent
    """

    TYPES = "P -> I"

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent.clone()


class MeanOfTangents(right.Reduce):
    """Averages tangents, although the values are summed.

    Breaks: Function.jvp.tangent
    """

    TYPES = "P -> I"

    @staticmethod
    def jvp(ctx, tangent, _):
        return summed(tangent, ctx.group) / dist.get_world_size(ctx.group)


class NoTangent(right.Reduce):
    """Returns None from jvp for a sum that has a derivative.

    Breaks: Function.jvp.tangent
    """

    TYPES = "P -> I"

    @staticmethod
    def jvp(ctx, tangent, _):
        return None
