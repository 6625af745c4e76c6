"""What published code changed in place and belonged to somebody else."""

import kernels
import torch
from torch.autograd import Function

from . import comm
from .comm import bounded, bounded_


# known: Function.mark_dirty.complete https://github.com/pytorch/pytorch/issues/5871
class AddsToASlice(Function):
    @staticmethod
    def forward(ctx, target, extra):
        target[1:2] += extra
        return target

    @staticmethod
    def backward(ctx, handed):
        return handed, handed[1:2].sum().view(1)


# known: Function.mark_dirty.complete https://github.com/NVIDIA/Megatron-LM/pull/97
class SumsOverRanks(Function):
    @staticmethod
    def forward(ctx, partial):
        return comm.total_in_place(partial)

    @staticmethod
    def backward(ctx, handed):
        return handed.clone()


# known: Function.mark_dirty.complete https://github.com/NVIDIA/TransformerEngine/issues/2899
class CrossEntropyByKernel(Function):
    @staticmethod
    def forward(ctx, logits, target):
        loss, logits = kernels.cross_entropy(logits, target)
        ctx.save_for_backward(logits.detach())
        return loss

    @staticmethod
    def backward(ctx, handed):
        (logits,) = ctx.saved_tensors
        return kernels.scale(logits, handed), None


# known: Function.mark_dirty.complete docs/failures/brevitas_clamp.py
class ClampsItsInput(Function):
    @staticmethod
    def forward(ctx, values, low, high):
        return bounded_(values, low, high)

    @staticmethod
    def backward(ctx, handed):
        return handed, None, None


# known: Function.backward.grads-untouched docs/failures/towhee_inplace_shift.py
# also: Function.mark_dirty.complete Function.backward.double
class ShiftsThroughData(Function):
    @staticmethod
    def forward(ctx, values, fold):
        ctx.fold = fold
        moved = values.data.new_zeros(values.size(0), fold)
        moved[:-1] = values.data[1:, :fold]
        values.data[:, :fold] = moved
        return values

    @staticmethod
    def backward(ctx, handed):
        moved = handed.data.new_zeros(handed.size(0), ctx.fold)
        moved[1:] = handed.data[:-1, : ctx.fold]
        handed.data[:, : ctx.fold] = moved
        return handed, None


# known: Function.backward.grads-untouched https://github.com/pytorch/pytorch/issues/81417
class RaisesItsGradient(Function):
    @staticmethod
    def forward(ctx, values):
        return values.clone()

    @staticmethod
    def vjp(ctx, handed):
        handed += 1
        return handed


# known: Function.backward.repeatable https://github.com/linkedin/Liger-Kernel/issues/254
class GatedByKernel(Function):
    @staticmethod
    def forward(ctx, gate, values):
        ctx.save_for_backward(gate, values)
        return kernels.gate(gate, values)

    @staticmethod
    def backward(ctx, handed):
        gate, values = ctx.saved_tensors
        kernels.gate_backward(handed, gate, values)
        return gate, values


# known: Function.backward.gradient docs/failures/torchdiffeq_assign.py
# also: Function.mark_dirty.complete
class AssignsUnchecked(Function):
    @staticmethod
    def forward(ctx, scratch, value, place):
        ctx.place = place
        scratch.data[place] = value
        return scratch

    @staticmethod
    def backward(ctx, handed):
        return handed, handed[ctx.place], None


class ClampsACopy(Function):
    @staticmethod
    def forward(ctx, values, low, high):
        return bounded(values, low, high)

    @staticmethod
    def backward(ctx, handed):
        return handed * 1, None, None


class ClampsWhatItMarks(Function):
    @staticmethod
    def forward(ctx, values, low, high):
        ctx.mark_dirty(values)
        return bounded(values, low, high, inplace=True)

    @staticmethod
    def backward(ctx, handed):
        return handed * 1, None, None


class SumsACopy(Function):
    @staticmethod
    def forward(ctx, partial):
        return comm.total_in_place(torch.clone(partial))

    @staticmethod
    def backward(ctx, handed):
        return handed.clone()
