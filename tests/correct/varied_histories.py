"""Correct Functions with state between calls: workspaces, tables, counters, caches."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import torch
from torch.autograd import Function

from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))
_DOUBLE = torch.float64


def _with_scale():
    yield torch.randn(4, dtype=_DOUBLE, requires_grad=True), torch.tensor(0.7, dtype=_DOUBLE)


class GrowingWorkspace(Function):
    """Sums squares in a workspace that grows with the longest call, and reads only its own part."""

    inputs = _with_scale
    room: ClassVar[torch.Tensor] = torch.zeros(0, dtype=torch.float64)

    @classmethod
    def filled(cls, x):
        with torch.inference_mode(False):
            if cls.room.numel() < x.numel():
                cls.room = torch.zeros(x.numel(), dtype=torch.float64)
        cls.room[: x.numel()] = x.reshape(-1).square()
        return cls.room

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return (scale * GrowingWorkspace.filled(x)[: x.numel()].sum()).to(x)

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return 2 * grad * scale * x, None


class TableOfPositions(Function):
    """Multiplies by a table that is cached by length, as Python floats, which have no mode and no dtype."""

    table: ClassVar[dict[int, list[float]]] = {}

    @staticmethod
    def forward(ctx, x):
        size = x.shape[-1]
        kept = TableOfPositions.table.setdefault(size, [1 / (1 + at) for at in range(size)])
        factors = torch.tensor(kept, dtype=x.dtype)
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    def backward(ctx, grad):
        (factors,) = ctx.saved_tensors
        return grad * factors


class TableForEachDtype(Function):
    """Multiplies by a table that is cached by length and dtype, made outside inference mode and copied."""

    table: ClassVar[dict[Any, torch.Tensor]] = {}

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        key = x.shape[-1], x.dtype
        with torch.inference_mode(False):
            if key not in TableForEachDtype.table:
                TableForEachDtype.table[key] = 1 / (1 + torch.arange(key[0], dtype=torch.float64)).to(x.dtype)
            factors = TableForEachDtype.table[key].clone()
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    def backward(ctx, grad):
        (factors,) = ctx.saved_tensors
        return grad * factors


class PositionsBeside(Function):
    """Returns positions with its result, copied from a cached table."""

    table: ClassVar[dict[int, torch.Tensor]] = {}

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        with torch.inference_mode(False):
            kept = PositionsBeside.table.setdefault(x.shape[-1], torch.arange(x.shape[-1]))
            positions = kept.clone()
        ctx.mark_non_differentiable(positions)
        factors = (1 + kept).to(x)
        ctx.save_for_backward(factors)
        return x * factors, positions

    @staticmethod
    def backward(ctx, grad, _):
        (factors,) = ctx.saved_tensors
        return grad * factors


class CountsItsDepth(Function):
    """Counts its recursion depth, and restores the count even if it refuses its input."""

    depth: ClassVar[int] = 0

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        CountsItsDepth.depth += 1
        try:
            if x.dim() < 2:
                raise ValueError(f"a matrix is wanted, not {x.dim()} dimensions")
            ctx.depth = CountsItsDepth.depth
            return ctx.depth * x
        finally:
            CountsItsDepth.depth -= 1

    @staticmethod
    def backward(ctx, grad):
        return ctx.depth * grad


class KeepsWhatItDivides(Function):
    """Caches the sum of a constant by its values, so another constant has an entry of its own."""

    kept: ClassVar[dict[Any, float]] = {}

    @staticmethod
    def inputs():
        yield torch.randn(3, 4, dtype=_DOUBLE, requires_grad=True), torch.rand(4, dtype=_DOUBLE)

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, weight):
        key = tuple(weight.tolist())
        ctx.factor = KeepsWhatItDivides.kept.setdefault(key, float(weight.sum()))
        return ctx.factor * x

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor * grad, None


class CountsEvaluations(Function):
    """Counts calls without a gradient, and stores nothing else."""

    seen: ClassVar[int] = 0

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        if not ctx.needs_input_grad[0]:
            CountsEvaluations.seen += 1
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class SumWithKeptOnes(Function):
    """Sums all elements; the gradient is a product with cached ones, in new memory."""

    kept: ClassVar[dict[Any, torch.Tensor]] = {}

    @staticmethod
    def forward(ctx, x):
        ctx.key = x.shape, x.dtype
        return x.sum()

    @staticmethod
    @torch.compiler.disable
    def backward(ctx, grad):
        shape, dtype = ctx.key
        with torch.inference_mode(False):
            ones = SumWithKeptOnes.kept.setdefault(ctx.key, torch.ones(shape, dtype=dtype))
        return grad * ones


class RefusesWithGradientsOn(Function):
    """Turns grad mode off to check its input, and restores it even if it refuses the input."""

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        with torch.no_grad():
            if x.dim() < 2:
                raise ValueError(f"a matrix is wanted, not {x.dim()} dimensions")
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class _SquareOfNumbers(Function):
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class KeptWithItsTensor(_SquareOfNumbers):
    """Caches its result for one tensor, held by a weak reference, until that is freed or modified."""

    kept: ClassVar[tuple[Any, int, list[float]]] = (lambda: None, 0, [])

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        of, version, numbers = KeptWithItsTensor.kept
        if of() is not x or version != x._version:
            numbers = (x * x).tolist()
            KeptWithItsTensor.kept = (weakref.ref(x), x._version, numbers)
        return torch.tensor(numbers, dtype=x.dtype).reshape(x.shape)


class KeptByAddressUntilFreed(_SquareOfNumbers):
    """Caches its result by address, and drops the entry when that memory is freed."""

    kept: ClassVar[dict[Any, list[float]]] = {}

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        key = x.data_ptr(), x._version, x.shape, x.stride()
        kept = KeptByAddressUntilFreed.kept
        if key not in kept:
            kept[key] = (x * x).tolist()
            weakref.finalize(x.untyped_storage(), kept.pop, key, None)
        return torch.tensor(kept[key], dtype=x.dtype).reshape(x.shape)


class KeptByAddressAndCompared(_SquareOfNumbers):
    """Caches its result by address along with the values it was computed from, and compares those."""

    kept: ClassVar[dict[Any, tuple[list[float], list[float]]]] = {}

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        given, numbers = KeptByAddressAndCompared.kept.get(x.data_ptr(), ([], []))
        if given != x.tolist():
            given, numbers = x.tolist(), (x * x).tolist()
            KeptByAddressAndCompared.kept = {x.data_ptr(): (given, numbers)}
        return torch.tensor(numbers, dtype=x.dtype).reshape(x.shape)
