"""Reference collectives with a source: broadcast, and the reduce that is its derivative.

:mod:`spec_impl.collectives` gives an overview.
"""

from __future__ import annotations

from typing import Any

import torch

from spec_impl.collective_calls import SeparateForm, anchored, from_source, mapped, to_source


class Broadcast(torch.autograd.Function):
    """Give every rank the ``x`` of one rank, the source, whose gradient is the sum of all ranks' gradients.

    The argument has type ``V``: each rank has its own, and only the source's counts. The result has type ``R``, so each
    rank may use it differently. This is the combined form. :class:`BroadcastSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_source import Broadcast
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (3 * Broadcast.apply(x, 0)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = "V -> R"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, source: int, group: Any = None) -> torch.Tensor:
        """Broadcast.

        Args:
            ctx: The context of this call.
            x: Any shape, dtype and strides. The same shape and dtype on every rank.
            source: A rank within the group, the same one on every rank.
            group: The process group; None is the default one.

        Returns:
            The values of the source, the same bits on every rank: contiguous, with their own memory.

        Raises:
            ValueError: on every rank, if shapes or dtypes differ between ranks or there is no such source; on this
                one, if it is not in the group.
        """
        ctx.source, ctx.group = source, group
        return from_source(x, source, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        """Add up the gradients of all ranks on the source.

        Args:
            ctx: The context of the call.
            grad: The gradient of this rank's loss.

        Returns:
            The sum on the source and zeros elsewhere, and None twice.
        """
        back = ReduceToSource.apply(grad, ctx.source, ctx.group) if ctx.needs_input_grad[0] else None
        return back, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Broadcast the source's ``tangent``; every rank has one."""
        return Broadcast.apply(tangent, ctx.source, ctx.group)


class BroadcastSeparate(SeparateForm):
    """:class:`Broadcast` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_source import BroadcastSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.func.grad(lambda x: (3 * BroadcastSeparate.apply(x, 0)).sum())(torch.ones(2))
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = Broadcast.TYPES

    @staticmethod
    def forward(x: torch.Tensor, source: int, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return from_source(x, source, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        """As in the combined form."""
        back = ReduceToSourceSeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None
        return back, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """As in the combined form."""
        return BroadcastSeparate.apply(anchored(ctx, tangent), *ctx.rest)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, source: int, group: Any
    ) -> tuple[torch.Tensor, int]:
        """All samples of ``x`` at once, wherever they are; ``source`` and ``group`` are as in forward."""
        return mapped(BroadcastSeparate, x, in_dims[0], source, group)


class ReduceToSource(torch.autograd.Function):
    """Add up ``x`` over the ranks on one rank, the source; the others get zeros. Its gradient is a broadcast.

    This is the combined form. :class:`ReduceToSourceSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_source import ReduceToSource
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (3 * ReduceToSource.apply(x, 0)).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    TYPES = "P -> V"

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, source: int, group: Any = None) -> torch.Tensor:
        """Add up on the source.

        Args:
            ctx: The context of this call.
            x: Any shape and strides; a dtype that the backend can add up. The same shape and dtype on every rank.
            source: A rank within the group, the same one on every rank.
            group: The process group; None is the default one.

        Returns:
            The sum on the source, zeros elsewhere: contiguous, with the shape, dtype and device of ``x``.

        Raises:
            ValueError: as :class:`Broadcast`.
        """
        ctx.source, ctx.group = source, group
        return to_source(x, source, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        """Send the source's gradient to every rank.

        Args:
            ctx: The context of the call.
            grad: The gradient of this rank's loss; only the source's counts.

        Returns:
            The gradient, the same on every rank, and None twice.
        """
        back = Broadcast.apply(grad, ctx.source, ctx.group) if ctx.needs_input_grad[0] else None
        return back, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """Add up every rank's ``tangent``, that of its ``x``, on the source."""
        return ReduceToSource.apply(tangent, ctx.source, ctx.group)


class ReduceToSourceSeparate(SeparateForm):
    """:class:`ReduceToSource` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives_source import ReduceToSourceSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.vmap(lambda x: ReduceToSourceSeparate.apply(x, 0))(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
        >>> dist.destroy_process_group()
    """

    TYPES = ReduceToSource.TYPES

    @staticmethod
    def forward(x: torch.Tensor, source: int, group: Any = None) -> torch.Tensor:
        """As in the combined form."""
        return to_source(x, source, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
        """As in the combined form."""
        back = BroadcastSeparate.apply(anchored(ctx, grad), *ctx.rest) if ctx.needs_input_grad[0] else None
        return back, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: None) -> torch.Tensor:
        """As in the combined form."""
        return ReduceToSourceSeparate.apply(anchored(ctx, tangent), *ctx.rest)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, source: int, group: Any
    ) -> tuple[torch.Tensor, int]:
        """All samples of ``x`` at once, wherever they are; ``source`` and ``group`` are as in forward."""
        return mapped(ReduceToSourceSeparate, x, in_dims[0], source, group)
