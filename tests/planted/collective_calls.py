"""Planted bugs: collectives that fail with certain layouts, values, unused results or one rank."""

from __future__ import annotations

import time
from typing import ClassVar

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from tests.correct import collective as right
from tests.correct._collectives import dense, matrix_and_group, own_part, summed

SPEC = "Collective"


inputs = matrix_and_group


class WaitsForUsedResults(right.TwoGathers):
    """Sums only the gradients of results that this rank uses: ranks that use others wait forever.

    Breaks: Collective.backward.unused
    """

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.set_materialize_grads(False)
        return right.TwoGathers.forward(ctx, x, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, first, second):
        if first is None:
            return own_part(summed(2 * second, ctx.group), ctx.group), None
        total = summed(first, ctx.group)
        if second is not None:
            total += summed(2 * second, ctx.group)
        return own_part(total, ctx.group), None


class StridedUnreduced(right.Copy):
    """Sums a contiguous copy if the gradient is strided, and returns the gradient itself (Megatron-LM 5337).

    Breaks: Collective.backward.any-layout
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = grad.clone()
        dist.all_reduce(total.contiguous(), group=ctx.group)
        return total, None


class MemoryInOrder(right.Reduce):
    """Reads the argument's memory in order, ignoring its strides.

    Breaks: Collective.forward.any-layout
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        strides = torch.empty(x.shape).stride()
        return summed(x.as_strided(x.shape, strides, x.storage_offset()), group)


class OneRowOfAnExpandedOne(right.Reduce):
    """Sums only the first row of an expanded argument.

    Breaks: Collective.forward.any-layout
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total = dense(x)
        part = total[:1] if x.stride(0) == 0 else total
        dist.all_reduce(part, group=group)
        return total


class AddsUpInPlaceAsItLies(right.Reduce):
    """Sums in place in the argument, whose memory Gloo reads in order, ignoring its strides.

    Breaks: Collective.forward.any-layout
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        ctx.mark_dirty(x)
        dist.all_reduce(x, group=group)
        return x


class SkipsZeros(right.Reduce):
    """Skips the collective on a rank whose argument is zero.

    Breaks: Collective.forward.same-calls
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return summed(x, group) if x.any() else dense(x)


class HalvesWhatIsLarge(right.Reduce):
    """Sums and halves until this rank's tensor is small: how often depends on its values.

    Breaks: Collective.forward.same-calls
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        small, size = dense(x), dist.get_world_size(group)
        while small.numel() and small.abs().max() > 100:
            small = summed(small, group) / (2 * size)
        return summed(small, group)


class SkipsGradientsOfZeros(right.Copy):
    """Skips the collective on a rank whose gradient is zero.

    Breaks: Collective.forward.same-calls
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(grad, ctx.group) if grad.any() else torch.zeros_like(grad), None


class WorkLeftBehind(right.Reduce):
    """Starts the sum and waits only briefly: a late rank is missing.

    Breaks: Collective.forward.types
    """

    TYPES = "P -> I"
    MOMENT = 0.02

    @staticmethod
    def forward(ctx, x, group):
        total = dense(x)
        work = dist.all_reduce(total, group=group, async_op=True)
        limit = time.monotonic() + WorkLeftBehind.MOMENT
        while not work.is_completed() and time.monotonic() < limit:
            time.sleep(0.001)
        return total


class GradientLeftBehind(right.Copy):
    """Starts the sum of gradients and waits only briefly: a late rank is missing.

    Breaks: Collective.backward.gradient
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = dense(grad)
        work = dist.all_reduce(total, group=ctx.group, async_op=True)
        limit = time.monotonic() + WorkLeftBehind.MOMENT
        while not work.is_completed() and time.monotonic() < limit:
            time.sleep(0.001)
        return total, None


class NobodyToAdd(right.Copy):
    """Returns a gradient of zeros in a group of one.

    Breaks: Collective.forward.one-rank
    """

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        alone = dist.get_world_size(ctx.group) == 1
        return torch.zeros_like(grad) if alone else summed(grad, ctx.group), None


class PlainSumBackward(right.RingGather):
    """Calls a plain collective in backward, which autograd cannot differentiate.

    Breaks: Collective.backward.twice
    """

    TYPES = "V -> R"

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total.data, group=ctx.group)
        return total.chunk(dist.get_world_size(ctx.group))[dist.get_rank(ctx.group)].clone(), None


class GathersIntoTheGradient(right.Copy):
    """Gathers into a list that contains the incoming gradient itself, which cuts its graph.

    Breaks: Collective.backward.twice
    """

    TYPES = "I -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.chunk(dist.get_world_size(group))[dist.get_rank(group)].clone()

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        parts = [torch.empty_like(grad) for _ in range(dist.get_world_size(ctx.group))]
        parts[dist.get_rank(ctx.group)] = grad
        dist.all_gather(parts, grad, group=ctx.group)
        return torch.cat(parts), None


class SendsFromTheArgument(right.Copy):
    """Sends straight from its argument's memory on the first rank, and returns before the others have received it.

    Breaks: Collective.forward.complete
    """

    TYPES = "V -> R"
    #: What is under way is kept: otherwise its memory may be given to somebody else.
    UNDER_WAY: ClassVar[list[object]] = []

    @classmethod
    def _sent(cls, x, group):
        for receiver in range(1, dist.get_world_size(group)):
            cls.UNDER_WAY.append((x, dist.isend(x, group=group, group_dst=receiver)))
        return x.clone()

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        x = x.detach().contiguous()
        if dist.get_rank(group) == 0:
            return SendsFromTheArgument._sent(x, group)
        received = torch.empty_like(x)
        dist.recv(received, group=group, group_src=0)
        return received

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        total = summed(grad, ctx.group)
        return total if dist.get_rank(ctx.group) == 0 else torch.zeros_like(total), None


class SumOfWeightsKeptByAddress(right.Reduce):
    """Caches the sums of leaves by address, version and shape, although all ranks still communicate.

    Breaks: Function.forward.calls-independent
    """

    TYPES = "P -> I"
    kept: ClassVar[dict[tuple[object, ...], list[float]]] = {}

    @staticmethod
    def forward(ctx, x, group):
        total = right.Reduce.forward(ctx, x, group)
        if not (x.is_leaf and x.requires_grad):
            return total
        key = x.data_ptr(), x._version, x.shape, dist.get_world_size(group)
        numbers = SumOfWeightsKeptByAddress.kept.setdefault(key, total.tolist())
        return total.new_tensor(numbers).reshape(total.shape)
