"""Bugs in vmap rules, most of them of a weighted sum over the last dimension."""

from __future__ import annotations

import torch
from torch.autograd import Function

from tests.correct.vmap import Noisy, noisy_inputs
from tests.samples import given

SPEC = "Function"


def _random(*shape, seed=31):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


inputs = given((_random(2, 3), _random(3, seed=32)))


class _Base(Function):
    """Computes ``(x * w).sum(-1)``; correct. The bugs below change ``vmap``."""

    @staticmethod
    def forward(x, w):
        return (x * w).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        wide = grad.unsqueeze(-1)
        return _reduced(wide * w, x), _reduced(wide * x, w)

    @staticmethod
    def jvp(ctx, x_t, w_t):
        x, w = ctx.saved_tensors
        return (x_t * w + x * w_t).sum(-1)

    @staticmethod
    def vmap(info, in_dims, x, w):
        return _Base.apply(*_aligned(in_dims, x, w)), 0


def _aligned(in_dims, *tensors):
    """Move the batch dimension of every tensor to the front, and pad all to the same number of dimensions."""
    rank = max(x.dim() - (dim is not None) for x, dim in zip(tensors, in_dims, strict=True))
    return [x if dim is None else _padded(x.movedim(dim, 0), rank) for x, dim in zip(tensors, in_dims, strict=True)]


def _padded(x, rank):
    return x.reshape(x.shape[0], *[1] * (rank + 1 - x.dim()), *x.shape[1:])


def _reduced(gradient, like):
    """Sum over broadcast dimensions."""
    while gradient.dim() > like.dim():
        gradient = gradient.sum(0)
    spread = [at for at, size in enumerate(like.shape) if size == 1 and gradient.shape[at] != 1]
    return gradient.sum(spread, keepdim=True) if spread else gradient


class _Triple(Function):
    """Triples, with derivatives that need no input; correct."""

    @staticmethod
    def forward(x):
        return 3 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad

    @staticmethod
    def vmap(info, in_dims, x):
        return 3 * x, in_dims[0]


class BatchCleared(_Triple):
    """Overwrites the batch with zeros in vmap.

    Breaks: Function.vmap.inputs-untouched
    """

    inputs = given((_random(2, 3),))

    @staticmethod
    def vmap(info, in_dims, x):
        result = 3 * x
        x.detach().zero_()
        return result, in_dims[0]


class BothRules(_Base):
    """Defines vmap and sets generate_vmap_rule too.

    Breaks: Function.vmap.not-both
    """

    generate_vmap_rule = True


class NoOutDims(_Base):
    """Returns only the output from vmap, without out_dims.

    Breaks: Function.vmap.out-dims
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        return _Base.vmap(info, in_dims, x, w)[0]


class OneOutDimForTwo(_Base):
    """Returns one out_dim for two outputs, which PyTorch accepts and the documentation does not.

    Breaks: Function.vmap.out-dims
    """

    inputs = given((_random(2, 3),))

    @staticmethod
    def forward(x):
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*output)
        ctx.save_for_forward(*output)

    @staticmethod
    def backward(ctx, sine, cosine):
        y, z = ctx.saved_tensors
        return sine * z - cosine * y

    @staticmethod
    def jvp(ctx, tangent):
        y, z = ctx.saved_tensors
        return z * tangent, -y * tangent

    @staticmethod
    def vmap(info, in_dims, x):
        return OneOutDimForTwo.apply(x.movedim(in_dims[0], 0)), 0


class OutDimsForInputs(_Base):
    """Returns an out_dim for each input instead of each output.

    Breaks: Function.vmap.out-dims
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        return _Base.vmap(info, in_dims, x, w)[0], (0, 0)


class OutDimBeyond(_Base):
    """Returns an out_dim that is out of range, as a dimension was summed over.

    Breaks: Function.vmap.out-dims
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        result, _ = _Base.vmap(info, in_dims, x, w)
        return result.movedim(0, -1), 2


class DimensionNamedWrongly(_Base):
    """Moves the batch dimension to the front, but declares where it was.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        result, _ = _Base.vmap(info, in_dims, x, w)
        return result, min(in_dims[0] or 0, 1)


class FrontAssumed(_Base):
    """Assumes that the batch dimension is the first.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        return _Base.vmap(info, tuple(None if dim is None else 0 for dim in in_dims), x, w)


class EverythingMapped(_Base):
    """Forgets that an argument may not be batched.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        return _Base.vmap(info, tuple(dim or 0 for dim in in_dims), x, w)


class NotMapped(_Base):
    """Declares that its output is not batched if the second argument is not.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        result, dim = _Base.vmap(info, in_dims, x, w)
        return (result, dim) if in_dims[1] is not None else (result[0], None)


class MeanOfTheBatch(_Base):
    """Takes the mean over the whole batch instead of each sample.

    Breaks: Function.vmap.batched
    """

    inputs = given((_random(2, 3),))

    @staticmethod
    def forward(x):
        return x - x.mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad - grad.mean()

    @staticmethod
    def jvp(ctx, tangent):
        return tangent - tangent.mean()

    @staticmethod
    def vmap(info, in_dims, x):
        return MeanOfTheBatch.apply(x), in_dims[0]


class DetachedInTheRule(_Base):
    """Detaches its inputs in vmap: values are right, gradients missing.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        return _Base.vmap(info, in_dims, x.detach(), w.detach())


class WrongGradientInTheRule(_Base):
    """Returns twice the gradient under vmap.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        result, dim = _Base.vmap(info, in_dims, x, w)
        return 2 * result - result.detach(), dim


class GradientAsksForItsNumbers(_Base):
    """Saves work where every incoming number is zero; inside a batch, numbers cannot be asked for.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return _Base.backward(ctx, grad) if grad.any() else (torch.zeros_like(x), torch.zeros_like(w))

    @staticmethod
    def vmap(info, in_dims, x, w):
        return GradientAsksForItsNumbers.apply(*_aligned(in_dims, x, w)), 0


class TangentAsksForItsNumbers(_Base):
    """Saves work where every tangent is zero; inside a batch, numbers cannot be asked for.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def jvp(ctx, x_t, w_t):
        _, w = ctx.saved_tensors
        return _Base.jvp(ctx, x_t, w_t) if w_t.any() else (x_t * w).sum(-1)

    @staticmethod
    def vmap(info, in_dims, x, w):
        return TangentAsksForItsNumbers.apply(*_aligned(in_dims, x, w)), 0


class NotNestable(_Base):
    """Converts to lists in vmap, which fails inside another vmap.

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        result, dim = _Base.vmap(info, in_dims, x, w)
        return result + torch.tensor(result.tolist()) * 0, dim


class RandomnessMatters(_Base):
    """Changes its result under randomness="different".

    Breaks: Function.vmap.batched
    """

    @staticmethod
    def vmap(info, in_dims, x, w):
        result, dim = _Base.vmap(info, in_dims, x, w)
        return (result * 1.01 if info.randomness == "different" else result), dim


class NoiseWhateverIsAsked(Noisy):
    """Draws noise for the whole batch in vmap, whatever the randomness option.

    Breaks: Function.vmap.batched
    """

    inputs = noisy_inputs

    @staticmethod
    def vmap(info, in_dims, x):
        return Noisy.apply(x), in_dims * 2


class OneNoiseForAll(Noisy):
    """Draws the same noise for all samples, even under randomness="different".

    Breaks: Function.vmap.batched
    """

    inputs = noisy_inputs

    @staticmethod
    def vmap(info, in_dims, x):
        return Noisy.vmap(info._replace(randomness="same") if info.randomness == "different" else info, in_dims, x)


class NoiseWhereItIsAnError(Noisy):
    """Draws noise under randomness="error", the default of torch.vmap, instead of refusing.

    Breaks: Function.vmap.batched
    """

    inputs = noisy_inputs

    @staticmethod
    def vmap(info, in_dims, x):
        return Noisy.vmap(info._replace(randomness="different") if info.randomness == "error" else info, in_dims, x)


class SavedInTwoOrders(Function):
    """Saves its inputs in different orders for backward and jvp, which the generated rule mixes up.

    Breaks: Function.vmap.batched
    """

    generate_vmap_rule = True

    inputs = given((_random(2, 3), _random(2, 3, seed=33)))

    @staticmethod
    def forward(x, y):
        return x.sin() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(y, x)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * x.cos() * y, grad * x.sin()

    @staticmethod
    def jvp(ctx, x_t, y_t):
        y, x = ctx.saved_tensors
        return x_t * x.cos() * y + y_t * x.sin()
