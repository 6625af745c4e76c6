"""The reference collective in which every rank sends a part to every other rank: the all-to-all.

:mod:`spec_impl.collectives` gives an overview.
"""

from __future__ import annotations

from typing import Any

import torch

from spec_impl.collective_calls import SeparateForm, anchored, mapped_rows, traded_rows


class AllToAll(torch.autograd.Function):
    """Send part *s* of the rows of ``x`` to rank *s*, for every *s*; gradients travel back the same way.

    It is its own partner: sent twice, every row is back in its place.

    This is the combined form. :class:`AllToAllSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_exchange import AllToAll
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (3 * AllToAll.apply(x)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = "V -> V"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """Send and receive.

        Args:
            ctx: The context of this call.
            x: One dimension or more, any dtype, any strides. The same shape and dtype on every rank, with rows for
                every rank.
            group: The process group; None is the default one.

        Returns:
            As many rows as ``x`` has, those from rank 0 first; contiguous.

        Raises:
            ValueError: on every rank, if shapes or dtypes differ between ranks, ``x`` is 0-d, or its rows cannot be
                divided evenly; on this one, if it is not in the group.
        """
        ctx.group = group
        return traded_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Send the gradients back.

        Args:
            ctx: The context of the call.
            grad: The gradient of this rank's loss.

        Returns:
            The gradient of ``x``, and None.
        """
        return AllToAll.apply(grad, ctx.group) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Send and receive rows of ``tangent``, that of ``x``; every rank has one."""
        return AllToAll.apply(tangent, ctx.group)


class AllToAllSeparate(SeparateForm):
    """:class:`AllToAll` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_exchange import AllToAllSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.vmap(AllToAllSeparate.apply)(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
        >>> dist.destroy_process_group()
    """

    TYPES = AllToAll.TYPES

    @staticmethod
    def forward(x: torch.Tensor, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return traded_rows(x, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return AllToAllSeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return AllToAllSeparate.apply(anchored(ctx, tangent), *ctx.rest)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, group: Any) -> tuple[torch.Tensor, int]:
        """Run on all samples of ``x`` at once, along any dimension; ``group`` is as in forward."""
        return mapped_rows(AllToAllSeparate, x, in_dims[0], group)
