"""Bugs of forward: what it keeps, what it leaves behind, what it shares between calls."""

from __future__ import annotations

import functools
import os
import random
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch.autograd import Function

from tests.correct import function_inputs as right
from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)
    yield (torch.randn((), dtype=torch.float64, requires_grad=True),)


class InputOnCtx(Function):
    """Keeps its input as an attribute of ctx instead of saving it.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.x * grad


class TensorInAList(Square):
    """Keeps a tensor in a list on ctx.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def forward(ctx, x):
        ctx.cache = [None, x.detach()]
        return Square.forward(ctx, x)


class TensorDeepInADict(Square):
    """Keeps a tensor in a tuple in a dict in a dict on ctx.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def forward(ctx, x):
        ctx.cache = {"stage": {"kept": (1, x + 1)}}
        return Square.forward(ctx, x)


@dataclass
class _State:
    kept: torch.Tensor


class TensorInADataclass(Square):
    """Keeps a tensor in an object on ctx, set in setup_context.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.state = _State(inputs[0].detach())


class TensorInAPartial(Square):
    """Keeps a tensor as an argument of a partial function on ctx.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def forward(ctx, x):
        ctx.later = functools.partial(torch.mul, x.detach())
        return Square.forward(ctx, x)


class TensorOnCtxUntilBackward(Square):
    """Keeps a tensor on ctx and drops it in backward: too late if that never runs, or runs twice.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def forward(ctx, x):
        ctx.cache = (x.detach(),)
        return Square.forward(ctx, x)

    @staticmethod
    def backward(ctx, grad):
        ctx.cache = None
        return Square.backward(ctx, grad)


class TensorsInAList(right.DetachesTensorsInAList):
    """Takes tensors in a list, which autograd ignores; they get no gradient.

    Breaks: Function.backward.gradient
    """

    inputs = right.DetachesTensorsInAList.inputs

    @staticmethod
    def forward(ctx, x, others):
        return 2 * x + sum(others)


class GradientOnCtx(Square):
    """Keeps the gradient on ctx in backward.

    Breaks: Function.forward.no-tensor-on-ctx
    """

    @staticmethod
    def backward(ctx, grad):
        result = Square.backward(ctx, grad)
        ctx.last = result.detach()
        return result


class OutputOnCtx(Function):
    """Keeps its output on ctx: a reference cycle, since the output refers to ctx.

    Breaks: Function.forward.frees-memory
    """

    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        return ctx.y * grad


class ListOfInputs(Square):
    """Appends every input to a global list.

    Breaks: Function.forward.frees-memory
    """

    _all: list[torch.Tensor] = []

    @staticmethod
    def forward(ctx, x):
        ListOfInputs._all.append(x)
        return Square.forward(ctx, x)


class LastGradientOnTheClass(Square):
    """Keeps the last gradient on the class.

    Breaks: Function.forward.frees-memory
    """

    @staticmethod
    def backward(ctx, grad):
        result = Square.backward(ctx, grad)
        LastGradientOnTheClass.last = result.detach()
        return result


class CacheByShape(Square):
    """Caches an intermediate value by shape, and replaces it on every call.

    Breaks: Function.forward.frees-memory
    """

    _cache: dict[Any, torch.Tensor] = {}

    @staticmethod
    def forward(ctx, x):
        doubled = x + x
        CacheByShape._cache[x.shape] = doubled
        ctx.save_for_backward(x)
        return doubled * x / 2


class ContextInACycle(Square):
    """Refers back to ctx from an object on ctx: a reference cycle that keeps the saved input alive.

    Breaks: Function.forward.frees-memory
    """

    @staticmethod
    def forward(ctx, x):
        ctx.hooks = {"owner": ctx}
        return Square.forward(ctx, x)


class NoiseFromOutside(Square):
    """Adds noise that no seed controls, far below any tolerance.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        return Square.forward(ctx, x) * (1 + 1e-14 * os.urandom(1)[0])


class NoisyGradient(Square):
    """Adds noise that no seed controls to the gradient only.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        return Square.backward(ctx, grad) * (1 + 1e-14 * os.urandom(1)[0])


class SeedsTheGenerator(Square):
    """Seeds PyTorch's generator for a reproducible result.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.manual_seed(1234)
        return Square.forward(ctx, x)


class SeedsTheGeneratorInBackward(Square):
    """Seeds the generator in backward, as if to repeat what forward drew.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        torch.manual_seed(1234)
        return Square.backward(ctx, grad)


class RestoresTheGeneratorInBackward(Function):
    """Restores the generator's state in backward and leaves it there, so that later draws repeat.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        ctx.state = torch.get_rng_state().numpy().tobytes()
        return x * torch.rand(x.shape, dtype=x.dtype)

    @staticmethod
    def backward(ctx, grad):
        torch.set_rng_state(torch.frombuffer(bytearray(ctx.state), dtype=torch.uint8))
        return grad * torch.rand(grad.shape, dtype=grad.dtype)


class SeedsNumpysGenerator(Square):
    """Seeds NumPy's global generator, as research code does.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        numpy.random.seed(0)
        return Square.forward(ctx, x)


class SeedsPythonsGeneratorInBackward(Square):
    """Seeds the generator of Python's random module, in backward.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        random.seed(0)
        return Square.backward(ctx, grad)


class ChangesTheDefaultDtype(Square):
    """Changes the default dtype, and does not restore it.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.set_default_dtype(torch.float64)
        return Square.forward(ctx, x)


class LeavesAnEnvironmentVariable(Square):
    """Sets an environment variable on every call.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        os.environ["PLANTED_CALLS"] = str(int(os.environ.get("PLANTED_CALLS", "0")) + 1)
        return Square.forward(ctx, x)


class InputOnTheClass(Function):
    """Keeps its input on the class, where the next call overwrites it.

    Breaks: Function.forward.calls-independent
    """

    @staticmethod
    def forward(ctx, x):
        InputOnTheClass.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * InputOnTheClass.x * grad


class ScaleOnTheClass(Function):
    """Keeps a number that depends on the input on the class, where the next call overwrites it.

    Breaks: Function.forward.calls-independent
    """

    @staticmethod
    def forward(ctx, x):
        ScaleOnTheClass.scale = float(x.sum())
        ctx.save_for_backward(x)
        return x * ScaleOnTheClass.scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ScaleOnTheClass.scale + (grad * x).sum()


class OneBufferForAllOutputs(Square):
    """Writes the output of every call to the same buffer.

    Breaks: Function.forward.calls-independent
    """

    _buffers: dict[Any, torch.Tensor] = {}

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        buffers = OneBufferForAllOutputs._buffers
        buffer = buffers.setdefault((x.shape, x.dtype), torch.empty_like(x, requires_grad=False))
        return torch.mul(x, x, out=buffer)


class OneBufferWithoutBackward(Function):
    """Rounds into the same buffer in every call, and has no backward by which calls could mix.

    Breaks: Function.forward.calls-independent
    """

    inputs = of_shapes((3, 2))
    _buffers: dict[Any, torch.Tensor] = {}

    @staticmethod
    def forward(ctx, x):
        buffers = OneBufferWithoutBackward._buffers
        buffer = buffers.setdefault((x.shape, x.dtype), torch.empty_like(x, requires_grad=False))
        ctx.mark_non_differentiable(buffer)
        return torch.floor(100 * x, out=buffer)
