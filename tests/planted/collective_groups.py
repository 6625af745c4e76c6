"""Planted bugs: collectives that are correct only in the group of all ranks."""

from __future__ import annotations

import torch.distributed as dist
from torch.autograd.function import once_differentiable

from tests.correct import collective as right
from tests.correct import collective_numbered as numbered
from tests.correct import collective_tangents as tangents
from tests.correct._collectives import dense, matrix_and_group, summed

SPEC = "Collective"


inputs = matrix_and_group


class RankOfTheWorld(right.Split):
    """Returns the rows of its rank in the world instead of the group.

    Breaks: Collective.group.subgroup
    """

    TYPES = "I -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        parts = x.chunk(dist.get_world_size(group))
        return dense(parts[dist.get_rank() % len(parts)])


class GroupForgotten(right.Reduce):
    """Sums over the world instead of the group.

    Breaks: Collective.group.subgroup
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return summed(x, None)


class TangentOfTheWorld(tangents.Reduce):
    """Sums tangents over the world instead of the group.

    Breaks: Collective.group.subgroup
    """

    TYPES = "P -> I"

    @staticmethod
    def jvp(ctx, tangent, _):
        return summed(tangent, None)


class RootIsAPlaceInBackward(numbered.FromARankOfTheWorld):
    """Takes the root, a rank of the world, for a place in the group: in backward alone.

    Breaks: Collective.group.subgroup
    """

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        return numbered.inputs()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = summed(grad, ctx.group)
        return total if dist.get_rank(ctx.group) == ctx.root else total * 0, None, None


class DividesByTheWorld(right.Copy):
    """Scales the sum by the world size over the size of the group.

    Breaks: Collective.group.subgroup
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(grad, ctx.group) * dist.get_world_size() / dist.get_world_size(ctx.group), None


class GroupOfTheClass(right.Copy):
    """Keeps the group on the class, where the next call overwrites it.

    Breaks: Collective.group.two-at-once
    """

    TYPES = "I -> R"
    group = None

    @staticmethod
    def forward(ctx, x, group):
        GroupOfTheClass.group = group
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(grad, GroupOfTheClass.group), None
