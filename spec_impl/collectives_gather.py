"""Reference collectives for code that differs from rank to rank: gather and reduce-scatter.

:mod:`spec_impl.collectives` gives an overview.
"""

from __future__ import annotations

from typing import Any

import torch

from spec_impl.collective_calls import SeparateForm, anchored, joined_rows, mapped_rows, summed_rows


class GatherReplicate(torch.autograd.Function):
    """Join the rows of every rank's ``x``, for code that differs from rank to rank; gradients are summed.

    If the code is the same on every rank, use :class:`spec_impl.collectives_scatter.GatherInvariant`: this class would
    count the loss once for each rank.

    This is the combined form. :class:`GatherReplicateSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_gather import GatherReplicate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (3 * GatherReplicate.apply(x)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = "V -> R"

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
        """Sum the gradients of all ranks' losses with respect to this rank's rows.

        Args:
            ctx: The context of the call.
            grad: The gradient of this rank's loss.

        Returns:
            The sum, in memory of its own, and None.
        """
        return ReduceScatter.apply(grad, ctx.group) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Gather and join every rank's ``tangent``, that of its ``x``."""
        return GatherReplicate.apply(tangent, ctx.group)


class GatherReplicateSeparate(SeparateForm):
    """:class:`GatherReplicate` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_gather import GatherReplicateSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.vmap(GatherReplicateSeparate.apply)(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
        >>> dist.destroy_process_group()
    """

    TYPES = GatherReplicate.TYPES

    @staticmethod
    def forward(x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return joined_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return ReduceScatterSeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return GatherReplicateSeparate.apply(anchored(ctx, tangent), *ctx.rest)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, group: Any) -> tuple[torch.Tensor, int]:
        """Run on all samples of ``x`` at once, along any dimension; ``group`` is as in forward."""
        return mapped_rows(GatherReplicateSeparate, x, in_dims[0], group)


class ReduceScatter(torch.autograd.Function):
    """Add up ``x`` over the ranks, and take this rank's part of the rows; gradients are joined.

    This is the combined form. :class:`ReduceScatterSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_gather import ReduceScatter
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (3 * ReduceScatter.apply(x)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = "P -> V"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """Add up this rank's rows.

        Args:
            ctx: The context of this call.
            x: One dimension or more, any dtype that can be added up, any strides. The same shape and dtype on every
                rank; with N ranks, N times the rows of the result.
            group: The process group; None is the default one.

        Returns:
            Contiguous rows. Ranks are added in order, so the sum has the same bits every time.

        Raises:
            ValueError: on every rank, if shapes or dtypes differ between ranks, ``x`` is 0-d, or its rows cannot be
                divided evenly; on this one, if it is not in the group.
        """
        ctx.group = group
        return summed_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Join the gradients of all ranks.

        Args:
            ctx: The context of the call.
            grad: The gradient of this rank's loss with respect to its rows.

        Returns:
            The gradients joined in rank order, the same on every rank, and None.
        """
        return GatherReplicate.apply(grad, ctx.group) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Add up this rank's rows of every rank's ``tangent``, that of its ``x``."""
        return ReduceScatter.apply(tangent, ctx.group)


class ReduceScatterSeparate(SeparateForm):
    """:class:`ReduceScatter` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_gather import ReduceScatterSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.vmap(ReduceScatterSeparate.apply)(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
        >>> dist.destroy_process_group()
    """

    TYPES = ReduceScatter.TYPES

    @staticmethod
    def forward(x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return summed_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return GatherReplicateSeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return ReduceScatterSeparate.apply(anchored(ctx, tangent), *ctx.rest)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, group: Any) -> tuple[torch.Tensor, int]:
        """Run on all samples of ``x`` at once, along any dimension; ``group`` is as in forward."""
        return mapped_rows(ReduceScatterSeparate, x, in_dims[0], group)
