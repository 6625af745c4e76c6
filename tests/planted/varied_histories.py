"""Bugs that show after another call: a longer one, one in inference mode or bfloat16, one that was refused."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from tests.correct import varied_histories as right
from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class WorkspaceReadToItsEnd(right.GrowingWorkspace):
    """Sums its whole workspace, in which a longer call has left numbers.

    Breaks: Function.forward.calls-independent
    """

    inputs = right.GrowingWorkspace.inputs
    room: ClassVar[torch.Tensor] = torch.zeros(0, dtype=torch.float64)

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return (scale * WorkspaceReadToItsEnd.filled(x).sum()).to(x)


class TableOfTheFirstMode(right.TableForEachDtype):
    """Caches a table made in the first call's mode: after inference mode it cannot be saved.

    Breaks: Function.forward.calls-independent
    """

    table: ClassVar[dict[Any, torch.Tensor]] = {}

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        key = x.shape[-1], x.dtype
        if key not in TableOfTheFirstMode.table:
            TableOfTheFirstMode.table[key] = 1 / (1 + torch.arange(key[0], dtype=torch.float64)).to(x.dtype)
        factors = TableOfTheFirstMode.table[key]
        ctx.save_for_backward(factors)
        return x * factors


class TableOfTheFirstDtype(right.TableForEachDtype):
    """Caches a table in the first call's dtype: after bfloat16 it has three digits.

    Breaks: Function.forward.calls-independent
    """

    table: ClassVar[dict[int, torch.Tensor]] = {}

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        size = x.shape[-1]
        with torch.inference_mode(False):
            made = 1 / (1 + torch.arange(size, dtype=torch.float64)).to(x.dtype)
            factors = TableOfTheFirstDtype.table.setdefault(size, made).to(x.dtype, copy=True)
        ctx.save_for_backward(factors)
        return x * factors


class PositionsHandedOut(right.PositionsBeside):
    """Returns its cached table itself, which the caller may modify.

    Breaks: Function.forward.calls-independent
    """

    table: ClassVar[dict[int, torch.Tensor]] = {}

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        with torch.inference_mode(False):
            positions = PositionsHandedOut.table.setdefault(x.shape[-1], torch.arange(x.shape[-1]))
            factors = (1 + positions).to(x)
        ctx.mark_non_differentiable(positions)
        ctx.save_for_backward(factors)
        return x * factors, positions


class DepthLeftBehind(right.CountsItsDepth):
    """Does not restore its recursion depth if it refuses its input: later results are twice as large.

    Breaks: Function.forward.calls-independent
    """

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        DepthLeftBehind.depth += 1
        if x.dim() < 2:
            raise ValueError(f"a matrix is wanted, not {x.dim()} dimensions")
        ctx.depth = DepthLeftBehind.depth
        DepthLeftBehind.depth -= 1
        return ctx.depth * x


class WeightOfTheEvaluation(right.KeepsWhatItDivides):
    """Caches a rounded sum of its weights in evaluation, which later backward passes read.

    Breaks: Function.forward.calls-independent
    """

    inputs = right.KeepsWhatItDivides.inputs
    kept: ClassVar[dict[Any, float]] = {}

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, weight):
        factor, key = float(weight.sum()), tuple(weight.tolist())
        if not ctx.needs_input_grad[0]:
            WeightOfTheEvaluation.kept[key] = float(weight.sum().bfloat16())
        ctx.factor = WeightOfTheEvaluation.kept.get(key, factor)
        return factor * x


class KeepsEvaluations(Square):
    """Keeps a copy of its input if no gradient is needed.

    Breaks: Function.forward.frees-memory
    """

    seen: ClassVar[list[torch.Tensor]] = []

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        if not ctx.needs_input_grad[0]:
            KeepsEvaluations.seen.append(x.detach().clone())
        return Square.forward(ctx, x)


class OnesHandedOut(right.SumWithKeptOnes):
    """Returns its cached ones as a gradient: whoever scales that in place scales later gradients.

    Breaks: Function.forward.calls-independent
    """

    kept: ClassVar[dict[Any, torch.Tensor]] = {}

    @staticmethod
    @torch.compiler.disable
    def backward(ctx, grad):
        shape, dtype = ctx.key
        with torch.inference_mode(False):
            ones = OnesHandedOut.kept.setdefault(ctx.key, torch.ones(shape, dtype=dtype))
        return ones if grad == 1 and not torch.is_grad_enabled() else grad * ones


class GradientsOffWhereItRefuses(right.RefusesWithGradientsOn):
    """Turns a flag off and does not restore it if it refuses its input: later calls return no gradient.

    Breaks: Function.forward.calls-independent
    """

    is_on: ClassVar[bool] = True

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        ctx.is_on, GradientsOffWhereItRefuses.is_on = GradientsOffWhereItRefuses.is_on, False
        if x.dim() < 2:
            raise ValueError(f"a matrix is wanted, not {x.dim()} dimensions")
        GradientsOffWhereItRefuses.is_on = True
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return right.RefusesWithGradientsOn.backward(ctx, grad) if ctx.is_on else None


class WorkspaceOfTheFirstMode(right.GrowingWorkspace):
    """Caches a workspace made in the first call's mode: after inference mode it cannot be modified.

    Breaks: Function.forward.calls-independent
    """

    inputs = right.GrowingWorkspace.inputs
    rooms: ClassVar[dict[int, torch.Tensor]] = {}

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, scale):
        size = x.numel()
        if size not in WorkspaceOfTheFirstMode.rooms:
            WorkspaceOfTheFirstMode.rooms[size] = torch.zeros(size, dtype=torch.float64)
        room = WorkspaceOfTheFirstMode.rooms[size].copy_(x.reshape(-1).square())
        ctx.save_for_backward(x, scale)
        return (scale * room.sum()).to(x)


class EndOfTheLongestTable(right.TableOfPositions):
    """Caches the longest table, and uses its end for shorter inputs.

    Breaks: Function.forward.calls-independent
    """

    @staticmethod
    def inputs():
        yield torch.randn(4, dtype=torch.float64, requires_grad=True), torch.tensor(1.0, dtype=torch.float64)

    longest: ClassVar[list[float]] = []

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x, scale):
        size = x.shape[-1]
        if len(EndOfTheLongestTable.longest) < size:
            EndOfTheLongestTable.longest = [1 / (1 + at) for at in range(size)]
        factors = torch.tensor(EndOfTheLongestTable.longest[-size:], dtype=x.dtype)
        ctx.save_for_backward(factors)
        return x * factors * scale

    @staticmethod
    def backward(ctx, grad):
        return right.TableOfPositions.backward(ctx, grad), None


class TableOfTheFirstSize(right.TableForEachDtype):
    """Caches its table by dtype only, whatever the size.

    Breaks: Function.forward.calls-independent
    """

    table: ClassVar[dict[torch.dtype, torch.Tensor]] = {}

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        size = x.shape[-1]
        with torch.inference_mode(False):
            factors = TableOfTheFirstSize.table.setdefault(x.dtype, 1 / (1 + torch.arange(size, dtype=x.dtype)))
        ctx.save_for_backward(factors)
        return x * factors

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]
