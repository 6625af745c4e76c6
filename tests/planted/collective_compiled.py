"""Planted bugs: collectives that are correct until they are compiled."""

from __future__ import annotations

import torch
import torch.distributed as dist

from tests.correct import collective as right
from tests.correct._collectives import matrix_and_group

SPEC = "Collective"


inputs = matrix_and_group


class _Reduce(right.Reduce):
    """Sums by a function of torch.distributed that the compiler traces; correct."""

    @staticmethod
    def forward(ctx, x, group):
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total


class RefusedOnOneRank(_Reduce):
    """Fails to compile on the second rank, because of a view that does not fit; the first rank waits in the sum.

    Breaks: Function.compile.agrees
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        if torch.compiler.is_compiling() and dist.get_rank() == 1:
            x = x.view(x.numel() + 1)
        return _Reduce.forward(ctx, x, group)


class MeanWhenCompiled(_Reduce):
    """Averages while being compiled, and sums otherwise.

    Breaks: Function.compile.agrees
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = _Reduce.forward(ctx, x, group)
        return total / dist.get_world_size(group) if torch.compiler.is_compiling() else total
