"""``torch.vmap``, and the rule that it generates for a Function."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function

from departures._probes import numbers, raises


class _SavedInTwoOrders(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, y = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(y, x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = ctx.saved_tensors
        return grad * y, grad * x


def generated_rule_mixes_saves() -> bool:
    """``generate_vmap_rule``

    The rule remembers only the batch dimensions of the last save: different tensors in ``save_for_backward`` and
    ``save_for_forward`` break backward under ``vmap``.
    """
    x, y = numbers(4, 3), numbers(3)
    out = torch.vmap(_SavedInTwoOrders.apply, (0, None))(x, y)
    return raises(RuntimeError, lambda: torch.autograd.grad(out.sum(), (x, y)))


class _ExpInBothDirections(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(output)

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent * ctx.saved_for_forward[0]  # type: ignore[no-any-return]


def generated_rule_leaves_saved_for_forward() -> bool:
    """``generate_vmap_rule`` and ``ctx.saved_for_forward``

    In ``jvp`` under ``vmap`` it holds the whole batch, while ``ctx.saved_tensors`` holds one sample: most shapes raise,
    others give wrong tangents.
    """
    x = numbers(4, 3).detach()
    mapped = torch.vmap(_ExpInBothDirections.apply)
    return raises(RuntimeError, lambda: torch.func.jvp(mapped, (x,), (x,)))


class _DoubleInPlace(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.mul_(2), x.sign()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(output[0])

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return 2 * grad


class _DoubleAndSign(_DoubleInPlace):
    @staticmethod
    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, x.sign()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])


def generated_rule_loses_marks() -> bool:
    """``generate_vmap_rule`` and marks

    ``ctx.mark_dirty`` raises under ``vmap``. An output given to ``ctx.mark_non_differentiable`` requires grad there,
    and ``None`` for its tangent fails an internal assertion.
    """
    dirty = raises(RuntimeError, lambda: torch.vmap(_DoubleInPlace.apply)(numbers(4, 3).detach()))
    return dirty and bool(torch.vmap(_DoubleAndSign.apply)(numbers(4, 3))[1].requires_grad)


def out_dims_without_batch() -> bool:
    """``out_dims`` of ``torch.vmap``

    With ``out_dims=1``, a result without a batch dimension raises, or is expanded to a size read from stray memory.
    """
    try:
        out = torch.vmap(lambda x: torch.ones(3), out_dims=1)(torch.zeros(4, 3))
    except RuntimeError:
        return True
    return out.shape != (3, 4)


DEPARTURES = (
    generated_rule_mixes_saves,
    generated_rule_leaves_saved_for_forward,
    generated_rule_loses_marks,
    out_dims_without_batch,
)
