"""Reference collectives for code that is the same on every rank: scatter, and the gather that is its derivative.

:mod:`spec_impl.collectives` gives an overview.
"""

from __future__ import annotations

from typing import Any

import torch

from spec_impl.collective_calls import SeparateForm, anchored, joined_rows, mapped_rows, own_rows


class Scatter(torch.autograd.Function):
    """Take this rank's part of the rows of ``x``, which is the same on every rank; its gradients are joined.

    Nothing is sent in forward. This is the combined form. :class:`ScatterSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_scatter import Scatter
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (3 * Scatter.apply(x)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = "I -> V"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """Take this rank's rows.

        Args:
            ctx: The context of this call.
            x: One dimension or more, any dtype, any strides. The same on every rank; with N ranks, N times the
                rows of the result.
            group: The process group; None is the default one.

        Returns:
            Contiguous rows with their own memory.

        Raises:
            ValueError: ``x`` is 0-d, its rows cannot be divided evenly, or this process is not in the group.
        """
        ctx.group = group
        return own_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Join the gradients of all ranks.

        Args:
            ctx: The context of the call.
            grad: The gradient of this rank's loss with respect to its rows.

        Returns:
            The gradients joined in rank order, the same on every rank, and None.
        """
        return GatherInvariant.apply(grad, ctx.group) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Take this rank's rows of ``tangent``, which is the same on every rank."""
        return Scatter.apply(tangent, ctx.group)


class ScatterSeparate(SeparateForm):
    """:class:`Scatter` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_scatter import ScatterSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.vmap(ScatterSeparate.apply)(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
        >>> dist.destroy_process_group()
    """

    TYPES = Scatter.TYPES

    @staticmethod
    def forward(x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return own_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return GatherInvariantSeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return ScatterSeparate.apply(anchored(ctx, tangent), *ctx.rest)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, group: Any) -> tuple[torch.Tensor, int]:
        """Run on all samples of ``x`` at once, along any dimension; ``group`` is as in forward."""
        return mapped_rows(ScatterSeparate, x, in_dims[0], group)


class GatherInvariant(torch.autograd.Function):
    """Join the rows of every rank's ``x``, for code that is the same on every rank.

    The loss is then the same on every rank, so backward returns this rank's rows of the incoming gradient and sends
    nothing. If ranks use the result differently, use :class:`spec_impl.collectives_gather.GatherReplicate`.

    This is the combined form. :class:`GatherInvariantSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_scatter import GatherInvariant
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (3 * GatherInvariant.apply(x)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = "V -> I"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """Gather and join.

        Args:
            ctx: The context of this call.
            x: One dimension or more, any dtype, any strides. The same shape and dtype on every rank.
            group: The process group; None is the default one.

        Returns:
            The rows of all ranks, rank 0's first, the same bits on every rank: contiguous.

        Raises:
            ValueError: on every rank, if shapes or dtypes differ between ranks or ``x`` is 0-d; on this one, if
                it is not in the group.
        """
        ctx.group = group
        return joined_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Take this rank's rows.

        Args:
            ctx: The context of the call.
            grad: The gradient of the loss, the same on every rank.

        Returns:
            The rows of ``grad`` that belong to this rank's ``x``, in their own memory, and None.
        """
        return Scatter.apply(grad, ctx.group) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Gather and join every rank's ``tangent``, that of its ``x``."""
        return GatherInvariant.apply(tangent, ctx.group)


class GatherInvariantSeparate(SeparateForm):
    """:class:`GatherInvariant` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_scatter import GatherInvariantSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.vmap(GatherInvariantSeparate.apply)(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
        >>> dist.destroy_process_group()
    """

    TYPES = GatherInvariant.TYPES

    @staticmethod
    def forward(x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return joined_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return ScatterSeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return GatherInvariantSeparate.apply(anchored(ctx, tangent), *ctx.rest)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, group: Any) -> tuple[torch.Tensor, int]:
        """Run on all samples of ``x`` at once, along any dimension; ``group`` is as in forward."""
        return mapped_rows(GatherInvariantSeparate, x, in_dims[0], group)
