"""Correct collectives by DTensor's ``redistribute``."""

from __future__ import annotations

import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from conformance import Subject
from tests.correct._collectives import dense, matrix_and_group

SPEC = "Collective"


inputs = matrix_and_group


def _redistributed(x, group, before, after):
    mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
    return DTensor.from_local(dense(x), mesh, [before]).redistribute(placements=[after]).to_local()


class Gather(Function):
    """Redistributes rows to the whole; backward reduces and scatters."""

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _redistributed(x, group, Shard(0), Replicate())

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return _redistributed(grad, ctx.group, Partial(), Shard(0)), None


def _gather(x, group, **gradients):
    """Redistributes by DTensor in a plain callable; DTensor itself provides the gradient."""
    mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
    rows = DTensor.from_local(x, mesh, [Shard(0)])
    return rows.redistribute(placements=[Replicate()]).to_local(**gradients)


def _gather_with_partial_gradients(x, group):
    return _gather(x, group, grad_placements=[Partial()])


whole_and_own_rows = Subject(_gather, spec="Collective", types="V -> I", inputs=inputs)
whole_and_summed_rows = Subject(_gather_with_partial_gradients, spec="Collective", types="V -> R", inputs=inputs)
