"""Planted bugs: gathers that join wrongly, or whose gradient is not that of this rank's own loss."""

from __future__ import annotations

import torch
import torch.distributed as dist

from tests.correct._gathers import check, dense, gathered, joined, own_rows, rank, size
from tests.correct.all_gather import CombinedWithJvp, Joined, SeparateForm

SPEC = "AllGather"


def _parts(tensor, args):
    if args.world_size == 1:
        return [dense(tensor)]
    check(args)
    return gathered(tensor)


class FromTheLastRank(Joined):
    """Rows of the last rank first.

    Breaks: AllGather.forward.concatenates
    Also: AllGather.backward.local-slice
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.world_size - 1 - args.local_rank
        return torch.cat(_parts(tensor, args)[::-1])


class AlongTheLastDimension(Joined):
    """Joined along the last dimension: right for vectors.

    Breaks: AllGather.forward.concatenates
    Also: AllGather.backward.local-slice, AllGather.backward.own-memory
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return torch.cat(_parts(tensor, args), -1)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.chunk(ctx.place[0], -1)[ctx.place[1]].clone(), None


class Stacked(Joined):
    """Stacked, with a dimension for ranks.

    Breaks: AllGather.forward.concatenates
    Also: AllGather.backward.local-slice, AllGather.forward.one-rank, AllGather.backward.own-memory
    Also: AllGather.forward.mismatch
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return torch.stack(_parts(tensor, args))

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output[ctx.place[1]].clone(), None


class RowsInTurn(Joined):
    """Row 0 of every rank, then row 1 of every rank: right for one row.

    Breaks: AllGather.forward.concatenates
    Also: AllGather.backward.local-slice
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        parts = _parts(tensor, args)
        return torch.stack(parts, 1).flatten(0, 1) if tensor.dim() else torch.cat(parts)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output[ctx.place[1] :: ctx.place[0]].clone(), None


class OwnRowsEverywhere(Joined):
    """This rank's rows N times.

    Breaks: AllGather.forward.concatenates
    Also: AllGather.backward.local-slice
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return torch.cat([dense(tensor) for _ in _parts(tensor, args)])


class OnlyLastRankBlind(Joined):
    """The last rank gets zeros for the others.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        parts = _parts(tensor, args)
        if args.local_rank == args.world_size - 1:
            parts = [*(torch.zeros_like(part) for part in parts[:-1]), parts[-1]]
        return torch.cat(parts) if args.world_size > 1 else dense(tensor)


class ThroughFloat(Joined):
    """Everything travels in single precision.

    Breaks: AllGather.forward.concatenates
    Also: AllGather.backward.local-slice
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        if args.world_size == 1:
            return dense(tensor)
        gathered(tensor[:0])
        return joined(tensor.float() if tensor.dtype == torch.float64 else tensor, args).to(tensor.dtype)


class IntegersBecomeFloats(Joined):
    """Integers come back as floating point numbers.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        whole = joined(tensor, args)
        return whole if whole.is_floating_point() or whole.is_complex() else whole.float()


class StridesIgnored(Joined):
    """Sends the memory of the tensor as it lies.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        reached = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
        if reached >= tensor.numel():
            tensor = torch.as_strided(tensor, (tensor.numel(),), (1,)).reshape(tensor.shape)
        return joined(tensor.detach(), args)


class StridedRefusedByOne(Joined):
    """A rank with a tensor that is not contiguous raises, and gathers nothing worth having for the others.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        whole = joined(tensor, args)
        if not tensor.is_contiguous():
            raise ValueError("not contiguous")
        return whole


class SignOfZeroLost(Joined):
    """Rows of zeros, filled and added up.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return joined(tensor, args) + 0 if tensor.is_floating_point() else joined(tensor, args)


class CollectiveAtOne(Joined):
    """Gathers with one rank too.

    Breaks: AllGather.forward.one-rank
    Also: AllGather.forward.args
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return torch.cat(gathered(tensor))


class GroupDecides(Joined):
    """Asks the process group how many ranks there are, where there is one, and not args.

    Breaks: AllGather.forward.one-rank
    Also: AllGather.forward.args
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        alone = not dist.is_initialized() or size() == 1
        return dense(tensor) if alone else torch.cat(gathered(tensor))


class AsksForItsRank(Joined):
    """Asks the process group for its rank, even with one rank.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, dist.get_rank() if args.world_size > 1 else 0 * dist.get_rank()
        return joined(tensor, args)


class BarrierAtOne(Joined):
    """Waits for the others, though it is told that there are none.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        if dist.is_initialized():
            dist.barrier()
        return joined(tensor, args)


class GradientLostAtOne(Joined):
    """With one rank there is no gradient.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return (None if ctx.place[0] == 1 else own_rows(grad_output, *ctx.place)), None


class ReducedAtOne(Joined):
    """Adds up gradients over ranks only where there is one rank, which needs a process group.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        mine = own_rows(grad_output, *ctx.place)
        if ctx.place[0] == 1:
            dist.all_reduce(mine)
        return mine, None


class Summed(Joined):
    """Added up over ranks, then cut out (towhee's AllGather2): another family's gradient.

    Breaks: AllGather.backward.local-slice
    Also: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad_output):
        total = dense(grad_output)
        if ctx.place[0] > 1:
            dist.all_reduce(total)
        return own_rows(total, *ctx.place), None


class Mean(Joined):
    """Averaged over ranks, then cut out.

    Breaks: AllGather.backward.local-slice
    Also: Function.backward.double
    """

    @staticmethod
    def backward(ctx, grad_output):
        total = dense(grad_output)
        if ctx.place[0] > 1:
            dist.all_reduce(total)
        return own_rows(total, *ctx.place) / ctx.place[0], None


class TimesSize(Joined):
    """Scaled by the number of ranks (open_clip 616).

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place) * ctx.place[0], None


class DividedBySize(Joined):
    """Divided by the number of ranks.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place) / ctx.place[0], None


class FirstRows(Joined):
    """Rank 0's rows for all: right on rank 0.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, ctx.place[0], 0), None


class NextRows(Joined):
    """The rows of the next rank: off by one.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, ctx.place[0], (ctx.place[1] + 1) % ctx.place[0]), None


class OneRowARank(Joined):
    """Takes it that every rank has as many rows as there were in the latest call.

    Breaks: AllGather.backward.local-slice
    Also: Function.backward.any-layout, Function.backward.needs-input-grad-honoured
    Also: Function.backward.repeatable, Function.save_for_backward.hooks-suffice
    Also: Function.forward.calls-independent
    """

    rows = 0

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.local_rank
        whole = joined(tensor, args)
        OneRowARank.rows = tensor.shape[0]
        return whole

    @staticmethod
    def backward(ctx, grad_output):
        rows = OneRowARank.rows
        return grad_output[rows * ctx.place : rows * (ctx.place + 1)].clone(), None


class GradientAsItLies(Joined):
    """Takes the memory of the gradient as it lies.

    Breaks: AllGather.backward.local-slice
    Also: Function.backward.any-layout
    """

    @staticmethod
    def backward(ctx, grad_output):
        reached = grad_output.untyped_storage().nbytes() // grad_output.element_size() - grad_output.storage_offset()
        if reached >= grad_output.numel():
            grad_output = torch.as_strided(grad_output, grad_output.shape, torch.empty(grad_output.shape).stride())
        return own_rows(grad_output, *ctx.place), None


class OnlyRankZeroDivides(Joined):
    """Rank 0 divides by the number of ranks; all others are right.

    Breaks: AllGather.backward.local-slice
    """

    @staticmethod
    def backward(ctx, grad_output):
        mine = own_rows(grad_output, *ctx.place)
        return mine / ctx.place[0] if ctx.place[1] == 0 else mine, None


def graph_cut(tensor, args):
    """Gathers without a graph.

    Breaks: AllGather.backward.local-slice
    Also: AllGather.forward.concatenates, AllGather.backward.none-for-args
    """
    return joined(tensor, args)


class ViewOfTheWhole(Joined):
    """A view of the gradient of the joined tensor, as towhee's own.

    Breaks: AllGather.backward.own-memory
    """

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.chunk(ctx.place[0])[ctx.place[1]], None


class GradientForArgs(Joined):
    """A zero for args, which is no tensor.

    Breaks: AllGather.backward.none-for-args
    Also: Function.backward.any-layout, Function.backward.double
    Also: Function.backward.needs-input-grad-honoured, Function.backward.repeatable
    Also: Function.forward.calls-independent, Function.forward.deterministic
    Also: Function.forward.frees-memory, Function.save_for_backward.hooks-suffice
    Also: AllGather.backward.local-slice, AllGather.backward.own-memory
    Also: Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place), torch.zeros(())


class OneGradient(Joined):
    """Nothing at all for args (pytorch-lightning 6624).

    Breaks: AllGather.backward.none-for-args
    Also: Function.backward.any-layout, Function.backward.double
    Also: Function.backward.needs-input-grad-honoured, Function.backward.repeatable
    Also: Function.forward.calls-independent, Function.forward.deterministic
    Also: Function.forward.frees-memory, Function.save_for_backward.hooks-suffice
    Also: AllGather.backward.local-slice, AllGather.backward.own-memory
    Also: Function.backward.count, Function.backward.gradient
    """

    @staticmethod
    def backward(ctx, grad_output):
        return own_rows(grad_output, *ctx.place)


class OwnTangentAlone(CombinedWithJvp):
    """This rank's tangent, and zeros for the others.

    Breaks: AllGather.jvp.gather
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        parts = [torch.zeros_like(tangent) for _ in range(ctx.args.world_size)]
        parts[ctx.args.local_rank] = tangent
        return torch.cat(parts)


class TangentsAddedUp(SeparateForm):
    """All tangents added up, N times.

    Breaks: AllGather.jvp.gather
    Also: Function.vmap.batched
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        count = ctx.args.world_size
        whole = SeparateForm.apply(tangent, ctx.args)
        return torch.cat([sum(whole.chunk(count))] * count)


class TangentsReversed(SeparateForm):
    """Tangents of the last rank first.

    Breaks: AllGather.jvp.gather
    Also: Function.vmap.batched
    """

    @staticmethod
    def jvp(ctx, tangent, _):
        return torch.cat(SeparateForm.apply(tangent, ctx.args).chunk(ctx.args.world_size)[::-1])


class SamplesJoined(SeparateForm):
    """Joins along the dimension of samples.

    Breaks: AllGather.vmap.batched
    Also: Function.vmap.batched
    Also: AllGather.forward.mismatch
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor.movedim(in_dims[0], 0), args)[: info.batch_size], 0


class SamplesNotMoved(SeparateForm):
    """Says that samples are last, and leaves them where they were.

    Breaks: AllGather.vmap.batched
    Also: Function.vmap.batched, Function.vmap.out-dims
    Also: AllGather.forward.mismatch
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor, args), tensor.dim() - 1


class SamplesShuffledAcrossRanks(SeparateForm):
    """Under vmap the rows of the last rank come first.

    Breaks: AllGather.vmap.batched
    Also: Function.vmap.batched
    Also: AllGather.forward.mismatch
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        whole = SeparateForm.apply(tensor.movedim(in_dims[0], -1), args)
        return torch.cat(whole.chunk(args.world_size)[::-1]), -1


class BatchedWithoutGraph(SeparateForm):
    """Under vmap the graph is cut.

    Breaks: AllGather.vmap.batched
    Also: Function.vmap.batched
    Also: AllGather.forward.mismatch
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return joined(tensor.movedim(in_dims[0], -1), args), -1


class Unchecked(Joined):
    """Gathers without a look at what the other ranks bring, as towhee's own.

    Breaks: AllGather.forward.mismatch
    Also: AllGather.forward.args
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        if args.world_size == 1:
            return dense(tensor)
        parts = [torch.empty(tensor.shape, dtype=tensor.dtype) for _ in range(args.world_size)]
        dist.all_gather(parts, dense(tensor))
        return torch.cat(parts)


class RankZeroRaises(Joined):
    """Rank 0 notices and raises; the others get their own rows.

    Breaks: AllGather.forward.mismatch
    Also: AllGather.forward.args
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        try:
            return joined(tensor, args)
        except ValueError:
            if rank() == 0:
                raise
            return torch.cat([dense(tensor)] * args.world_size)


class ScalarsStacked(Joined):
    """Makes rows of tensors without dimensions, as if they had been asked for.

    Breaks: AllGather.forward.mismatch
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return joined(tensor.reshape(-1) if tensor.dim() == 0 else tensor, args)


class ArgsBelieved(Joined):
    """What args say is taken on trust: another rank's rows come as this one's gradient.

    Breaks: AllGather.forward.args
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return dense(tensor) if args.world_size == 1 else torch.cat(gathered(tensor))


class SameMemoryForOneRank(Joined):
    """With one rank the tensor itself is handed out.

    Breaks: AllGather.forward.own-memory
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return tensor.detach() if args.world_size == 1 else joined(tensor, args)


class ScalarSamplesJoined(SeparateForm):
    """Under vmap, samples without a dimension are joined as if the batch were theirs.

    Breaks: AllGather.forward.mismatch
    """

    @staticmethod
    def vmap(info, in_dims, tensor, args):
        return SeparateForm.apply(tensor.movedim(in_dims[0], -1), args), -1 if tensor.dim() > 1 else 0
