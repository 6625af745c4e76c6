"""Planted bugs: gathers that join wrongly, or that fail if ranks disagree."""

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
    """Joins in reverse order of ranks.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.world_size - 1 - args.local_rank
        return torch.cat(_parts(tensor, args)[::-1])


class AlongTheLastDimension(Joined):
    """Joins along the last dimension: correct for vectors.

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
    """Stacks instead of joining: the result has a dimension for ranks.

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
    """Interleaves rows, row 0 of every rank first: correct for one row.

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
    """Joins N copies of this rank's rows.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return torch.cat([dense(tensor) for _ in _parts(tensor, args)])


class OnlyLastRankBlind(Joined):
    """Joins zeros in place of the other ranks' rows, on the last rank.

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
    """Converts everything to single precision on the way.

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
    """Returns floating-point numbers for integers.

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
    """Raises on a rank whose tensor is not contiguous, while the other ranks return.

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
    """Adds zero to the result, so the sign of zero is lost.

    Breaks: AllGather.forward.concatenates
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return joined(tensor, args) + 0 if tensor.is_floating_point() else joined(tensor, args)


class CollectiveAtOne(Joined):
    """Calls a collective even if args.world_size is 1.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return torch.cat(gathered(tensor))


class GroupDecides(Joined):
    """Takes the number of ranks from the process group instead of args.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        alone = not dist.is_initialized() or size() == 1
        return dense(tensor) if alone else torch.cat(gathered(tensor))


class AsksForItsRank(Joined):
    """Queries the process group for its rank, even if args.world_size is 1.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, dist.get_rank() if args.world_size > 1 else 0 * dist.get_rank()
        return joined(tensor, args)


class BarrierAtOne(Joined):
    """Waits in a barrier even if args.world_size is 1.

    Breaks: AllGather.forward.one-rank
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        if dist.is_initialized():
            dist.barrier()
        return joined(tensor, args)


class Unchecked(Joined):
    """Gathers without comparing shapes and dtypes between ranks, as towhee itself does.

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
    """Raises on rank 0 only; the others return their own rows.

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
    """Turns tensors without dimensions into rows instead of refusing them.

    Breaks: AllGather.forward.mismatch
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return joined(tensor.reshape(-1) if tensor.dim() == 0 else tensor, args)


class ArgsBelieved(Joined):
    """Does not compare args with the process group: this rank's gradient may be another rank's rows.

    Breaks: AllGather.forward.args
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return dense(tensor) if args.world_size == 1 else torch.cat(gathered(tensor))


class SameMemoryForOneRank(Joined):
    """Returns the input itself if args.world_size is 1.

    Breaks: AllGather.forward.own-memory
    """

    @staticmethod
    def forward(ctx, tensor, args):
        ctx.place = args.world_size, args.local_rank
        return tensor.detach() if args.world_size == 1 else joined(tensor, args)
