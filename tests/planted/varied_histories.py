"""Bugs that show after another call: a longer one, one in inference mode, one in bfloat16, one that was refused."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from tests.correct import varied_histories as right
from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class TableOfTheFirstMode(right.TableForEachDtype):
    """Makes its table in the mode of the first call: after inference mode it cannot be saved.

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


class PositionsHandedOut(right.PositionsBeside):
    """Hands the table itself out, which the caller may write to.

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
    """Does not count down again where it refuses its input: from then on results are twice as large.

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


class KeepsEvaluations(Square):
    """Keeps what it is called with, where no gradient is needed.

    Breaks: Function.forward.frees-memory
    """

    seen: ClassVar[list[torch.Tensor]] = []

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, x):
        if not ctx.needs_input_grad[0]:
            KeepsEvaluations.seen.append(x.detach().clone())
        return Square.forward(ctx, x)
