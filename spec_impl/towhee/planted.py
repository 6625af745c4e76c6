"""Planted bugs: gathers that join wrongly, or that go wrong with ranks that do not agree."""

from __future__ import annotations

import torch
import torch.distributed as dist

from spec_impl.ksuit._by_hand import check, dense, gathered, joined, rank, size
from spec_impl.towhee.correct import Joined


def _parts(tensor, args):
    if args.world_size == 1:
        return [dense(tensor)]
    check(args)
    return gathered(tensor)


class FromTheLastRank(Joined):
    """Rows of the last rank first.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.world_size - 1 - args.local_rank
        return torch.cat(_parts(tensor, args)[::-1])


class AlongTheLastDimension(Joined):
    """Joined along the last dimension: right for vectors.

    Breaks: AllGather.forward.concatenates
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
    """Sends the tensor's memory in order, ignoring its strides.

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
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return torch.cat(gathered(tensor))


class GroupDecides(Joined):
    """Reads the number of ranks from the process group, if there is one, instead of args.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        alone = not dist.is_initialized() or size() == 1
        return dense(tensor) if alone else torch.cat(gathered(tensor))


class AsksForItsRank(Joined):
    """Reads its rank from the process group, even with one rank.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, dist.get_rank() if args.world_size > 1 else 0 * dist.get_rank()
        return joined(tensor, args)


class BarrierAtOne(Joined):
    """Waits for the others, although args say that there are none.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        if dist.is_initialized():
            dist.barrier()
        return joined(tensor, args)


class Unchecked(Joined):
    """Gathers without comparing shapes and dtypes between ranks, as towhee's own.

    Breaks: AllGather.forward.mismatch
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
    """Trusts args: another rank's rows become this one's gradient.

    Breaks: AllGather.forward.args
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return dense(tensor) if args.world_size == 1 else torch.cat(gathered(tensor))


class SameMemoryForOneRank(Joined):
    """With one rank, returns the tensor itself.

    Breaks: AllGather.forward.own-memory
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return tensor.detach() if args.world_size == 1 else joined(tensor, args)
