"""What PyTorch does that its pages do not lead one to expect: one function each, True where the installed one does it.

The first line of a docstring says where, the rest what. ``conf/releases.py`` asks every release, and the page on
PyTorch shows the answers beside these words; a function more is a row more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import departures_compiled
import torch
from torch import multiprocessing
from torch.autograd import Function, forward_ad
from torch.autograd.function import once_differentiable


def _numbers(*shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=torch.float64).reshape(shape).requires_grad_()


def _raises(error: type[Exception], call: Callable[[], object]) -> bool:
    try:
        call()
    except error:
        return True
    return False


class _Square(Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def vjp(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class _SquareTwice(_Square):
    backward = _Square.vjp


def vjp_alone() -> bool:
    """``vjp`` under ``torch.func``

    A class that defines ``vjp`` alone differentiates in eager mode and raises ``NotImplementedError`` under
    ``torch.func.grad``.
    """
    x = _numbers(3)
    torch.autograd.grad(_Square.apply(x).sum(), x)
    return _raises(NotImplementedError, lambda: torch.func.grad(lambda x: _Square.apply(x).sum())(x.detach()))


def vjp_and_backward() -> bool:
    """``vjp`` beside ``backward``

    A class that defines both is refused in eager mode, and taken under ``torch.func.grad``.
    """
    x = _numbers(3)
    torch.func.grad(lambda x: _SquareTwice.apply(x).sum())(x.detach())
    return _raises(RuntimeError, lambda: torch.autograd.grad(_SquareTwice.apply(x).sum(), x))


class _NoTangent(Function):
    @staticmethod
    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, x * 3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> tuple[torch.Tensor, None]:
        return tangent * 2, None


def none_from_jvp() -> bool:
    """``None`` from ``jvp``

    For an output that is floating-point and not marked non-differentiable it ends in an internal assertion. Marked,
    integer and non-tensor outputs take ``None``, as documented.
    """
    x = _numbers(3).detach()
    with forward_ad.dual_level():
        return _raises(RuntimeError, lambda: _NoTangent.apply(forward_ad.make_dual(x, torch.ones_like(x))))


class _CubeOnce(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def once_differentiable_twice() -> bool:
    """``once_differentiable``

    Where a second path leads to the same input (``loss = y * x``), ``torch.autograd.grad`` of a gradient gives a wrong
    second derivative without a word; ``.backward()`` raises.
    """
    x = _numbers(3)
    (first,) = torch.autograd.grad((_CubeOnce.apply(x) * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return not torch.allclose(second, 12 * x.detach() ** 2)


class _CubeOnceSeparate(Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    backward = _CubeOnce.backward


def once_differentiable_under_func() -> bool:
    """``once_differentiable`` under ``torch.func``

    ``torch.func.grad`` of ``torch.func.grad`` gives 0 without a word, where autograd raises.
    """
    cube = torch.func.grad(torch.func.grad(_CubeOnceSeparate.apply))
    return bool(cube(torch.tensor(2.0, dtype=torch.float64)) == 0)


class _DoubledForAutocast(Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def forward(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 2 * grad


def custom_fwd_in_separate_form() -> bool:
    """``custom_fwd`` beside ``setup_context``

    ``custom_bwd`` raises ``AttributeError`` in backward: ``custom_fwd`` wrote its notes on the first input, which it
    takes for ctx.
    """
    x = _numbers(3)
    result = _DoubledForAutocast.apply(x).sum()
    return _raises(AttributeError, lambda: torch.autograd.grad(result, x))


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

    The rule remembers the batch dimensions of the last save alone: different tensors in ``save_for_backward`` and
    ``save_for_forward`` break backward under ``vmap``.
    """
    x, y = _numbers(4, 3), _numbers(3)
    out = torch.vmap(_SavedInTwoOrders.apply, (0, None))(x, y)
    return _raises(RuntimeError, lambda: torch.autograd.grad(out.sum(), (x, y)))


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

    In ``jvp`` under ``vmap`` it has the whole batch in it, while ``ctx.saved_tensors`` has the sample: most shapes
    raise, others give wrong tangents.
    """
    x = _numbers(4, 3).detach()
    mapped = torch.vmap(_ExpInBothDirections.apply)
    return _raises(RuntimeError, lambda: torch.func.jvp(mapped, (x,), (x,)))


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
    and ``None`` for its tangent ends in an internal assertion.
    """
    dirty = _raises(RuntimeError, lambda: torch.vmap(_DoubleInPlace.apply)(_numbers(4, 3).detach()))
    return dirty and bool(torch.vmap(_DoubleAndSign.apply)(_numbers(4, 3))[1].requires_grad)


def out_dims_without_batch() -> bool:
    """``out_dims`` of ``torch.vmap``

    A result without a batch dimension and ``out_dims=1`` raises, or is expanded to a size read from stray memory.
    """
    try:
        out = torch.vmap(lambda x: torch.ones(3), out_dims=1)(torch.zeros(4, 3))
    except RuntimeError:
        return True
    return out.shape != (3, 4)


def gathered_gradients_transposed() -> bool:
    """``torch.distributed.nn.functional.all_gather`` on Gloo

    Transposed incoming gradients come back wrong. [The package's page](published/torch.distributed.nn.md) has a script.
    """
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_gather, args=(folder,), nprocs=2)
        return Path(folder, "said").read_text("utf-8") != "right"


def _gather(rank: int, folder: str) -> None:
    from torch import distributed
    from torch.distributed.nn.functional import all_gather

    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    x = _numbers(2, 3)
    grads = [(number + 1) * _numbers(3, 2).detach().t() for number in range(2)]
    (actual,) = torch.autograd.grad(all_gather(x), x, grads)
    if rank == 0:  # both ranks ask for the same gradients
        Path(folder, "said").write_text("right" if torch.equal(actual, 2 * grads[0]) else "wrong", "utf-8")
    distributed.barrier()
    distributed.destroy_process_group()


DEPARTURES = (
    vjp_alone,
    vjp_and_backward,
    none_from_jvp,
    once_differentiable_twice,
    once_differentiable_under_func,
    custom_fwd_in_separate_form,
    generated_rule_mixes_saves,
    generated_rule_leaves_saved_for_forward,
    generated_rule_loses_marks,
    out_dims_without_batch,
    gathered_gradients_transposed,
    *departures_compiled.DEPARTURES,
)
