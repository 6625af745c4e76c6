"""Correct collectives of every common signature, in many styles: none of them may be accused."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.distributed import _functional_collectives as functional

from conformance import GROUP, Subject
from tests.correct._collectives import dense, gathered, matrix_and_group, own_part, summed

SPEC = "Collective"


inputs = matrix_and_group


class Copy(Function):
    """Copies in forward and sums in backward: Megatron's copy."""

    TYPES = "I -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(grad, ctx.group), None


class Reduce(Function):
    """Sums by a functional collective: Megatron's reduce."""

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return functional.wait_tensor(functional.all_reduce(x.contiguous(), "sum", group)).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad.clone(), None


class ReduceUnderWay(Function):
    """Returns a functional collective that is still under way; whoever reads it first waits for it."""

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return functional.all_reduce(x.contiguous(), "sum", group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad.clone(), None


class ScalesAfterItWasSummed(Reduce):
    """Waits before it scales the sum. Meanwhile it writes only to memory that no collective uses."""

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        total, other = (x.clone(memory_format=torch.contiguous_format) for _ in range(2))
        work = dist.all_reduce(total, group=group, async_op=True)
        other.mul_(2.0)
        work.wait()
        total.mul_(1.0)
        both = torch.stack([total, total])
        works = [dist.broadcast(part, group_src=0, group=group, async_op=True) for part in both]
        for one in works:
            one.wait()
        return both[0].clone()


class CopySummedUnderWay(Copy):
    """Returns from backward a functional collective that is still under way."""

    TYPES = "I -> R"

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return functional.all_reduce(grad.contiguous(), "sum", ctx.group), None


class ReduceInSinglePrecision(Reduce):
    """Sums in single precision, whatever the dtype."""

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        return summed(x.float(), group).to(x.dtype)


class ReduceCoalesced(Function):
    """Sums two halves by coalesced collectives."""

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx, x, group):
        halves = [dense(half) for half in x.tensor_split(2)]
        with dist._coalescing_manager(group=group):
            for half in halves:
                dist.all_reduce(half, group=group)
        return torch.cat(halves)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad.clone(), None


class AllReduce(Function):
    """Sums in forward and in backward: each rank uses the result as it likes."""

    TYPES = "P -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return summed(x, group)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return summed(grad, ctx.group), None


class RingGather(Function):
    """Gathers by passing tensors around a ring; backward sums the gathered gradients locally."""

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        rank, size = dist.get_rank(group), dist.get_world_size(group)
        parts = {rank: dense(x)}
        for step in range(1, size):
            passed_on, coming = (rank - step + 1) % size, (rank - step) % size
            parts[coming] = torch.empty_like(parts[rank])
            works = dist.batch_isend_irecv(
                [
                    dist.P2POp(dist.isend, parts[passed_on], group=group, group_peer=(rank + 1) % size),
                    dist.P2POp(dist.irecv, parts[coming], group=group, group_peer=(rank - 1) % size),
                ]
            )
            for work in works:
                work.wait()
        return torch.cat([parts[at] for at in range(size)])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return own_part(torch.stack(gathered(grad, ctx.group)).sum(0), ctx.group), None


class ComplexGather(RingGather):
    """Gathers complex numbers around the ring."""

    TYPES = "V -> R"

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(720)
        return [(torch.randn(3, 2, dtype=torch.complex128, generator=generator, requires_grad=True), GROUP)]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return own_part(torch.stack(gathered(grad, ctx.group)).sum(0), ctx.group), None


class GatherForOneLoss(Function):
    """Gathers for code that is the same on every rank: backward returns this rank's rows of the gradient."""

    TYPES = "V -> I"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return torch.cat(gathered(x, group))

    @staticmethod
    def backward(ctx, grad):
        return Split.apply(grad, ctx.group), None


class Split(Function):
    """Returns this rank's rows; backward gathers."""

    TYPES = "I -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return own_part(x, group)

    @staticmethod
    def backward(ctx, grad):
        return GatherForOneLoss.apply(grad, ctx.group), None


class GatherUnderWay(GatherForOneLoss):
    """Writes a row next to those that are being gathered, and waits only after they have been filled."""

    TYPES = "V -> I"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group, whole = group, dense(x)
        size = dist.get_world_size(group)
        joined = x.new_empty(size * len(x) + 1, *x.shape[1:])
        work = dist.all_gather([*joined[:-1].chunk(size)], whole, group=group, async_op=True)
        joined[-1].zero_()
        limit = time.monotonic() + 0.02
        while not work.is_completed() and time.monotonic() < limit:
            time.sleep(0.001)
        work.wait()
        return joined[:-1].clone()


class SplitWithoutGraph(Split):
    """Gathers in backward into parts of one tensor, which PyTorch refuses if the gradient requires grad."""

    TYPES = "I -> V"

    @staticmethod
    def backward(ctx, grad):
        size = dist.get_world_size(ctx.group)
        joined = torch.empty(size * len(grad), *grad.shape[1:], dtype=grad.dtype, requires_grad=grad.requires_grad)
        dist.all_gather(list(joined.chunk(size)), dense(grad), group=ctx.group)
        return joined.detach(), None


class FirstRankAlone(Function):
    """Returns zeros on all ranks but the first: the gradient there is constant."""

    TYPES = "V -> V"

    @staticmethod
    def forward(ctx, x, group):
        ctx.is_first = dist.get_rank(group) == 0
        return 2 * x if ctx.is_first else torch.zeros_like(x)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad if ctx.is_first else torch.zeros_like(grad), None


class TwoGathers(Function):
    """Returns two gathers, of which a rank may use either."""

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return torch.cat(gathered(x, group)), torch.cat(gathered(2 * x, group))

    @staticmethod
    @once_differentiable
    def backward(ctx, first, second):
        return own_part(summed(first + 2 * second, ctx.group), ctx.group), None


class GatherOfParts(Function):
    """Returns a tuple with one tensor for each rank of the group."""

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return tuple(gathered(x, group))

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        return summed(torch.stack(grads), ctx.group)[dist.get_rank(ctx.group)], None


class ColumnParallelLinear(Function):
    """Multiplies by this rank's columns of a weight; the input is the same on every rank."""

    TYPES = "I, V -> V"

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(710)
        x, weight = (torch.randn(shape, dtype=torch.float64, generator=generator) for shape in ((2, 3), (3, 2)))
        return [(x.requires_grad_(), weight.requires_grad_(), GROUP)]

    @staticmethod
    def forward(ctx, x, weight, group):
        ctx.save_for_backward(x, weight)
        ctx.group = group
        return x @ weight

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return summed(grad @ weight.T, ctx.group), x.T @ grad, None


class LogSumExp(Function):
    """Computes the log-sum-exp over the elements of all ranks: not linear."""

    TYPES = "V -> I"

    @staticmethod
    def forward(ctx, x, group):
        most = x.detach().max().clone()
        dist.all_reduce(most, dist.ReduceOp.MAX, group=group)
        total = (x - most).exp().sum()
        dist.all_reduce(total, group=group)
        found = most + total.log()
        ctx.save_for_backward(x, found)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, found = ctx.saved_tensors
        return grad * (x - found).exp(), None


@torch.library.custom_op("conformance_tests::total", mutates_args=())
def _total(x: torch.Tensor, group_name: str) -> torch.Tensor:
    return summed(x, dist.distributed_c10d._resolve_process_group(group_name))


@_total.register_fake
def _(x, group_name):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


_total.register_autograd(lambda ctx, grad: (grad.clone(), None))


def _total_of(x, group):
    return _total(x, group.group_name)


CUSTOM_OP = Subject(_total_of, spec="Collective", types="P -> I", inputs=matrix_and_group)

WITHOUT_TYPES = Subject(Copy, spec="Collective", inputs=matrix_and_group)
