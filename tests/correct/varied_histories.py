"""Correct Functions that keep something from call to call: workspaces, tables, counts, what was seen in evaluation."""

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
    """A sum of squares times a number, by way of a workspace that grows with the longest call and is read in part."""

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
    """Multiplies rows by a table of cosines that it keeps by length, in double precision and outside any mode."""

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
    """The same with a table of tensors, which it keeps by length and dtype, makes outside inference mode and copies."""

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
    """Returns positions with its result, made of a table that it keeps, and copied from it."""

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
    """Counts how deep it is inside itself, and counts down again also if it refuses its input."""

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
    """Keeps by its numbers what it computed of a constant, without a gradient too; another one has other numbers."""

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
    """Counts calls without a gradient, and keeps nothing of them."""

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
    """The sum of all elements; its gradient is a copy of ones that it keeps for each shape."""

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
    """Turns gradients off for a look at its input, and on again also if it refuses that."""

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
    """Keeps its result for as long as the very tensor lives, which it refers to weakly, and is not written to."""

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
    """Keeps its result by address, and forgets it as soon as that memory is free."""

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
    """Keeps its result by address, beside the numbers that it was computed of, and looks at these."""

    kept: ClassVar[dict[Any, tuple[list[float], list[float]]]] = {}

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        given, numbers = KeptByAddressAndCompared.kept.get(x.data_ptr(), ([], []))
        if given != x.tolist():
            given, numbers = x.tolist(), (x * x).tolist()
            KeptByAddressAndCompared.kept = {x.data_ptr(): (given, numbers)}
        return torch.tensor(numbers, dtype=x.dtype).reshape(x.shape)
