"""Reference collectives; the two in this module, copy and reduce, treat a tensor as a whole.

The attribute ``TYPES`` of each class names the SPMD types of its argument and its result, which
:class:`spec_impl.collective.Collective` explains. All are linear, so the jvp of each is the Function itself, and its
backward is another Function, its partner:

=====================  ==========  =====================  ==========  ==================================
Function               types       partner                types       module
=====================  ==========  =====================  ==========  ==================================
Copy                   I -> R      Reduce                 P -> I      this one
Broadcast              V -> R      ReduceToSource         P -> V      :mod:`spec_impl.collectives_source`
Scatter                I -> V      GatherInvariant        V -> I      :mod:`spec_impl.collectives_scatter`
GatherReplicate        V -> R      ReduceScatter          P -> V      :mod:`spec_impl.collectives_gather`
AllToAll               V -> V      AllToAll               V -> V      :mod:`spec_impl.collectives_exchange`
=====================  ==========  =====================  ==========  ==================================

For a sum whose result each rank uses differently, ``P -> R``, write ``Copy.apply(Reduce.apply(x))``.

Either all ranks of the group call a Function, or none; the same holds for running backward through it. Otherwise
the ranks that do wait for the ranks that do not. The process group is the last argument; None is the default one.
"""

from __future__ import annotations

from typing import Any

import torch

from spec_impl import exchange
from spec_impl.collective_calls import SeparateForm, anchored, mapped, summed


class Copy(torch.autograd.Function):
    """Pass ``x``, the same on every rank, to code that differs from rank to rank; backward sums the gradients.

    Nothing is sent in forward. This is the combined form. :class:`CopySeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives import Copy
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (3 * Copy.apply(x)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = "I -> R"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """Return ``x`` unchanged.

        Args:
            ctx: The context of this call.
            x: Any shape, dtype and strides. The same on every rank.
            group: The process group; None is the default one.

        Returns:
            A view of ``x``.

        Raises:
            ValueError: this process is not in the group.
        """
        ctx.group = group
        return _as_it_is(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Add up the gradients of all ranks.

        Args:
            ctx: The context of the call.
            grad: The gradient of this rank's loss.

        Returns:
            The sum, the same on every rank, and None.
        """
        return Reduce.apply(grad, ctx.group) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Return ``tangent`` unchanged: it is the same on every rank."""
        return Copy.apply(tangent, ctx.group)


class CopySeparate(SeparateForm):
    """:class:`Copy` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives import CopySeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.func.grad(lambda x: (3 * CopySeparate.apply(x)).sum())(torch.ones(2))
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = Copy.TYPES

    @staticmethod
    def forward(x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return _as_it_is(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return ReduceSeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form: the result is a view, so PyTorch requires a view of the tangent."""
        return CopySeparate.apply(tangent, *ctx.rest)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, group: Any) -> tuple[torch.Tensor, int]:
        """Run on all samples of ``x`` at once, along any dimension; ``group`` is as in forward."""
        return mapped(CopySeparate, x, in_dims[0], group)


class Reduce(torch.autograd.Function):
    """Add up ``x`` over the ranks, for code that is the same on every rank; the gradient is passed on unchanged.

    This is the combined form. :class:`ReduceSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives import Reduce
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> total = Reduce.apply(x)
        >>> total.detach()
        tensor([1., 2.])
        >>> total.sum().backward()
        >>> x.grad
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """

    TYPES = "P -> I"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """Add up.

        Args:
            ctx: The context of this call.
            x: Any shape, 0-d and empty ones included; any strides; a dtype that the backend can add up. The same
                shape and dtype on every rank.
            group: The process group; None is the default one.

        Returns:
            The sum, the same bits on every rank: contiguous, with the shape, dtype and device of ``x``.

        Raises:
            ValueError: on every rank, if shapes or dtypes differ between ranks; on this one, if it is not in the
                group.
        """
        ctx.group = group
        return summed(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Return the gradient unchanged: it is the same on every rank.

        Args:
            ctx: The context of the call.
            grad: The gradient of the loss.

        Returns:
            A view of ``grad``, and None.
        """
        return Copy.apply(grad, ctx.group) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Add up every rank's ``tangent``, that of its ``x``."""
        return Reduce.apply(tangent, ctx.group)


class ReduceSeparate(SeparateForm):
    """:class:`Reduce` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives import ReduceSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.vmap(ReduceSeparate.apply)(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
        >>> dist.destroy_process_group()
    """

    TYPES = Reduce.TYPES

    @staticmethod
    def forward(x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return summed(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return CopySeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return ReduceSeparate.apply(anchored(ctx, tangent), *ctx.rest)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, group: Any) -> tuple[torch.Tensor, int]:
        """Run on all samples of ``x`` at once, along any dimension; ``group`` is as in forward."""
        return mapped(ReduceSeparate, x, in_dims[0], group)


def _as_it_is(x: torch.Tensor, group: Any) -> torch.Tensor:
    exchange.place(group)  # raises here, not in backward, if this process is not in the group
    return x
