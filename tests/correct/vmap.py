"""Correct ways to support ``torch.vmap``: rules written by hand, generated rules, and none."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import given

SPEC = "Function"


def _random(*shape, seed=41, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()


inputs = given((_random(2, 3),), (_random(3, dtype=torch.float32),), (_random(),))


class Generated(Function):
    """Uses the generated rule in backward and in jvp."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * ctx.saved_tensors[0]


class OnceDifferentiable(Generated):
    """Uses the generated rule, with a backward that is once_differentiable."""

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class ByHand(Function):
    """Works elementwise, so the batch dimension stays where it is."""

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos()

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * ctx.saved_tensors[0].cos()

    @staticmethod
    def vmap(info, in_dims, x):
        return ByHand.apply(x), in_dims[0]


class AsAClassMethod(ByHand):
    """Defines vmap as a class method, which PyTorch accepts as well."""

    @classmethod
    def vmap(cls, info, in_dims, x):
        return cls.apply(x.movedim(in_dims[0], -1)), x.dim() - 1


class OneByOne(ByHand):
    """Runs sample by sample in its vmap rule and stacks: slow, and correct."""

    @staticmethod
    def vmap(info, in_dims, x):
        return torch.stack([ByHand.apply(part) for part in x.unbind(in_dims[0])], -1), x.dim() - 1


class VjpOnly(Function):
    """Defines vjp instead of backward, which torch.func does not support but plain autograd does."""

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vjp(ctx, grad):
        return grad * 2

    @staticmethod
    def vmap(info, in_dims, x):
        return VjpOnly.apply(x), in_dims[0]


class Gather(Function):
    """Returns an output that is not batched; indices and numbers may be batched."""

    generate_vmap_rule = True

    inputs = given((_random(4), torch.tensor([3, 0, 0]), "sum"))

    @staticmethod
    def forward(x, index, mode):
        return x[index], index.clone(), torch.ones(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, index, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, index)

    @staticmethod
    def backward(ctx, grad, *_):
        x, index = ctx.saved_tensors
        return torch.zeros_like(x).index_add(0, index, grad), None, None


class NotMappedOutput(Function):
    """Returns an output that is the same for all samples: its out_dim is None."""

    @staticmethod
    def forward(x):
        return 2 * x, torch.zeros((), dtype=x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return 2 * grad

    @staticmethod
    def vmap(info, in_dims, x):
        return NotMappedOutput.apply(x), (in_dims[0], None)


class InPlace(Function):
    """Adds a second argument in place; PyTorch requires a batched first one for that."""

    inputs = given((_random(3), _random(3, seed=42)))

    @staticmethod
    def forward(x, y):
        return x.add_(y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return grad, grad

    @staticmethod
    def vmap(info, in_dims, x, y):
        at, other = in_dims
        y = y.unsqueeze(at) if other is None else y.movedim(other, at)
        return InPlace.apply(x, y), at


class Combined(Function):
    """Uses the combined form, which torch.vmap refuses."""

    @staticmethod
    def forward(ctx, x):
        return -x

    @staticmethod
    def backward(ctx, grad):
        return -grad


class NoRule(Function):
    """Uses the separate form without any vmap rule."""

    @staticmethod
    def forward(x):
        return -x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Dropping(Function):
    """Draws random numbers: no two calls return the same."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * (torch.rand_like(x) > 0.5)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output != 0)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class InPlaceOnACopy(ByHand):
    """Works in place on a copy of the batch."""

    @staticmethod
    def vmap(info, in_dims, x):
        result = x.clone()
        return result.sin_(), in_dims[0]


def noisy_inputs():
    yield (_random(2, 3),)


class Noisy(Function):
    """Draws noise as info.randomness says: refused, the same for all samples, or different for each."""

    inputs = noisy_inputs

    @staticmethod
    def forward(x):
        noise = torch.rand_like(x)
        return x * noise, noise

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
        ctx.save_for_forward(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        (noise,) = ctx.saved_tensors
        return tangent * noise, None

    @staticmethod
    def vmap(info, in_dims, x):
        if info.randomness == "error":
            raise RuntimeError("give vmap randomness='same' or 'different'")
        x = x.movedim(in_dims[0], 0)
        noise = torch.rand_like(x if info.randomness == "different" else x[0]).expand_as(x)
        return Scaled.apply(x, noise), (0, 0)


class Scaled(Noisy):
    """Takes its noise as an argument."""

    @staticmethod
    def inputs():
        yield _random(2, 3), torch.rand(2, 3, dtype=torch.float64)

    @staticmethod
    def forward(x, noise):
        return x * noise, noise.clone()

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.saved_tensors[0], None

    @staticmethod
    def jvp(ctx, tangent, _):
        (noise,) = ctx.saved_tensors
        return tangent * noise, None

    @staticmethod
    def vmap(info, in_dims, x, noise):
        moved = [y if dim is None else y.movedim(dim, 0) for y, dim in zip((x, noise), in_dims, strict=True)]
        return Scaled.apply(*torch.broadcast_tensors(*moved)), (0, 0)


class NoisyGenerated(Noisy):
    """Draws noise under the generated rule, which follows the randomness option."""

    generate_vmap_rule = True
    vmap = Function.vmap

    inputs = noisy_inputs


class NoisyAndRefused(Noisy):
    """Refuses to be batched: a transform need not be supported."""

    inputs = noisy_inputs

    @staticmethod
    def vmap(info, in_dims, x):
        raise NotImplementedError("noise is for one sample")


class RandomOnTheWay(Function):
    """Draws a random start that the result does not depend on, whatever the randomness option."""

    inputs = noisy_inputs

    @staticmethod
    def forward(x):
        root = 1 + torch.rand_like(x)
        for _ in range(60):
            root = (root + (1 + x.square()) / root) / 2
        return root

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, grad):
        x, root = ctx.saved_tensors
        return grad * x / root

    @staticmethod
    def vmap(info, in_dims, x):
        return RandomOnTheWay.apply(x), in_dims[0]


class RarelyNoisy(Noisy):
    """Drops one number in a thousand: samples mostly look alike."""

    inputs = given((_random(2),))

    @staticmethod
    def forward(x):
        noise = (torch.rand_like(x) > 0.001).to(x.dtype)
        return x * noise, noise

    @staticmethod
    def vmap(info, in_dims, x):
        if info.randomness == "error":
            raise RuntimeError("give vmap randomness='same' or 'different'")
        x = x.movedim(in_dims[0], 0)
        like = x if info.randomness == "different" else x[0]
        return Scaled.apply(x, (torch.rand_like(like) > 0.001).to(x.dtype).expand_as(x)), (0, 0)


class BatchesItsFirstArgumentAlone(Function):
    """Refuses a batched weight."""

    @staticmethod
    def inputs():
        yield torch.randn(2, 3, dtype=torch.float64, requires_grad=True), torch.randn(3, 4, dtype=torch.float64)

    @staticmethod
    def forward(x, weight):
        return x @ weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.mT, x.mT @ grad

    @staticmethod
    def vmap(info, in_dims, x, weight):
        if in_dims[1] is not None:
            raise NotImplementedError("weight cannot be batched")
        rows = x.movedim(in_dims[0], 0).flatten(0, 1)
        return BatchesItsFirstArgumentAlone.apply(rows, weight).unflatten(0, (info.batch_size, -1)), 0
