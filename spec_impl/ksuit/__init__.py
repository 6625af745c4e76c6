"""Gather a tensor from all ranks; its gradient includes every rank's loss.

Source document: the page of ``ksuit.distributed.functional.all_gather_grad_autograd`` (K).
"""

from __future__ import annotations

from typing import Any

import torch

from spec_impl import exchange

SPEC = "AllGatherGradAutograd"
DOCUMENTS = {"K": ("ksuit: AllGatherGradAutograd", "")}


class AllGatherGradAutograd(torch.autograd.Function):
    """Gather ``x`` from every rank of the default process group; its gradient is summed over the ranks.

    With N ranks, if rank *r* passes ``x_r``, every rank gets ``(x_0, ..., x_{N-1})``. Each rank computes its own
    loss from these, and the gradient of ``x_r`` is that of the sum of all losses.

    All ranks must call it. Then all must run backward through it, or none: if one rank skips backward, or only its
    ``x`` needs no gradient, the others wait for it.

    This is the combined form. :class:`AllGatherGradAutogradSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.ksuit import AllGatherGradAutograd
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> gathered = AllGatherGradAutograd.apply(x)
        >>> len(gathered)
        1
        >>> (3 * gathered[0]).sum().backward()
        >>> x.grad
        tensor([3., 3.])
        >>> dist.destroy_process_group()
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Gather.

        Args:
            ctx: The context of this call.
            x: Any shape, 0-d and empty ones included; any dtype; any strides. The same shape and dtype on
                every rank.

        Returns:
            One contiguous tensor for each rank, in rank order, with the shape, dtype and device of ``x``.

        Raises:
            ValueError: on every rank, if shapes or dtypes differ between ranks.

        .. clause:: AllGatherGradAutograd.forward.every-rank
           :level: must
           :sources: K "Gathers tensors from all process"

           With N ranks the result is a tuple of N tensors, the same on every rank. Entry *s* equals the ``x`` of
           rank *s*, bit for bit.

        .. clause:: AllGatherGradAutograd.forward.meta
           :level: must
           :sources: K "Gathers tensors from all process", ours

           Every entry has the shape, dtype and device of ``x``. This holds for 0-d, empty and many-dimensional
           tensors, and for half, bfloat16, float, double, complex, integer and bool.

        .. clause:: AllGatherGradAutograd.forward.any-layout
           :level: quality
           :sources: ours

           A transposed, sliced or expanded ``x`` gives the same result as a contiguous one with equal elements.

        .. clause:: AllGatherGradAutograd.forward.own-memory
           :level: quality
           :sources: ours

           No entry shares memory with ``x``, with another entry, or with an entry of an earlier call.

        .. clause:: AllGatherGradAutograd.forward.mismatch
           :level: may
           :sources: ours

           If shapes or dtypes differ between ranks, every rank raises an error that says so. No rank hangs, crashes
           or returns meaningless numbers.
        """
        return _gather(x, None)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor | None:
        """Sum the gradients of all ranks' losses with respect to this rank's ``x``.

        Args:
            ctx: The context of the call.
            *grads: The gradients of this rank's loss, one for each rank's entry.

        Returns:
            The gradient of ``x``, with its shape, dtype and device.

        .. clause:: AllGatherGradAutograd.backward.sum
           :level: must
           :sources: K "backward propagation for the gradients across processes"

           The gradient of ``x`` on rank *r* is the sum, over all ranks *s*, of rank *s*'s gradient of entry *r*.
           This is the gradient of the sum of all ranks' losses.

        .. clause:: AllGatherGradAutograd.backward.own-memory
           :level: quality
           :sources: ours

           The gradient of ``x`` does not keep a buffer alive that is larger than itself.

        .. clause:: AllGatherGradAutograd.backward.unused
           :level: must
           :sources: K "backward propagation for the gradients across processes", ours

           Ranks may use different entries in their losses: one, several, or in effect none, if a loss is multiplied
           by zero. Nothing hangs, and an entry that a rank does not use counts as zero.

        .. clause:: AllGatherGradAutograd.backward.one-rank
           :level: must
           :sources: K "backward propagation for the gradients across processes", ours

           With one rank, the only entry equals ``x``, and the gradient of ``x`` is the gradient of that entry.

        .. clause:: AllGatherGradAutograd.backward.no-grad
           :level: must
           :sources: K "a Tensor not requiring grads"

           If ``x`` requires grad on no rank, no entry requires grad, and backward passes through the rest of the
           loss exchange nothing between ranks.

        .. clause:: AllGatherGradAutograd.backward.twice
           :level: quality
           :sources: ours

           If the gradient can be differentiated again, in reverse or in forward mode, its derivative is right too:
           it includes every rank's loss.
        """
        return _SumOverRanks.apply(None, None, *grads) if ctx.needs_input_grad[0] else None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Gather the tangents of all ranks.

        Args:
            ctx: The context of the call.
            tangent: The tangent of ``x`` on this rank; every rank has one.

        Returns:
            One tangent for each entry.

        .. clause:: AllGatherGradAutograd.jvp.gather
           :level: must
           :sources: X Extending torch.func "needs a jvp staticmethod", ours

           The tangent of entry *s* is rank *s*'s tangent of ``x``.
        """
        return AllGatherGradAutograd.apply(tangent)


class AllGatherGradAutogradSeparate(torch.autograd.Function):
    """:class:`AllGatherGradAutograd` in the separate form, for a process group of your choice.

    It works under :func:`torch.vmap`, :func:`torch.func.grad` and the other transforms, and can be differentiated any
    number of times.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.ksuit import AllGatherGradAutogradSeparate
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> torch.vmap(lambda x: AllGatherGradAutogradSeparate.apply(x)[0])(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
        >>> dist.destroy_process_group()
    """

    @staticmethod
    def forward(x: torch.Tensor, group: Any = None) -> tuple[torch.Tensor, ...]:
        """Gather ``x`` over ``group``; None is the default process group."""
        return _gather(x, group)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        """Store the group on ctx, and an empty tensor that vmap maps if it maps ``x``."""
        x, ctx.group = inputs
        ctx.save_for_backward(x.new_empty(0))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form; None for the group."""
        (anchor,) = ctx.saved_tensors
        return _SumOverRanks.apply(ctx.group, anchor, *grads) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> tuple[torch.Tensor, ...]:
        """As in the combined form."""
        return AllGatherGradAutogradSeparate.apply(tangent, ctx.group)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, None], x: torch.Tensor, group: Any
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
        """Gather all samples at once.

        Args:
            info: Not needed.
            in_dims: The dimension of ``x`` that counts the samples. It may differ between ranks.
            x: All samples of this rank.
            group: The process group.

        Returns:
            One tensor for each rank, with the samples along dimension 0.

        .. clause:: AllGatherGradAutograd.vmap.batched
           :level: must
           :sources: X Extending torch.func, ours

           On every rank, torch.vmap over any dimension of ``x`` equals gathering sample by sample.

        .. clause:: AllGatherGradAutograd.vmap.some-ranks
           :level: quality
           :sources: ours

           Under torch.vmap, incoming gradients may differ between samples on some ranks and be the same for all
           samples on others.
        """
        gathered = AllGatherGradAutogradSeparate.apply(x.movedim(in_dims[0], 0), group)
        return gathered, (0,) * len(gathered)


class _SumOverRanks(torch.autograd.Function):
    """Sum gradients over the ranks: the derivative of the gather, whose own derivative is the gather.

    ``anchor`` has no elements. It makes vmap call the rule below on every rank, even if gradients differ from sample
    to sample on some ranks only.
    """

    @staticmethod
    def forward(group: Any, anchor: torch.Tensor | None, *grads: torch.Tensor) -> torch.Tensor:
        return exchange.sum_parts(grads, group)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.group, anchor, *_ = inputs
        ctx.save_for_forward(anchor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, None, *AllGatherGradAutogradSeparate.apply(grad, ctx.group)

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor) -> torch.Tensor:
        (anchor,) = ctx.saved_tensors
        return _SumOverRanks.apply(ctx.group, anchor, *tangents[2:])

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], group: Any, anchor: torch.Tensor, *grads: torch.Tensor
    ) -> tuple[torch.Tensor, int]:
        dims = in_dims[2:]
        batched = [_batch_first(grad, dim, info.batch_size) for grad, dim in zip(grads, dims, strict=True)]
        return _SumOverRanks.apply(group, anchor, *batched), 0


def _gather(x: torch.Tensor, group: Any) -> tuple[torch.Tensor, ...]:
    _, size = exchange.place(group)
    if size == 1:
        return (exchange.dense(x).clone(),)
    return _gather_from(size, x, group)


@exchange.untraced
def _gather_from(size: int, x: torch.Tensor, group: Any) -> tuple[torch.Tensor, ...]:
    x = exchange.dense(x)
    starts = exchange.agree(x, group)
    gathered = [torch.empty_like(x) for _ in range(size)]
    exchange.gather_into(gathered, x, starts, group)
    return tuple(gathered)


def _batch_first(x: torch.Tensor, dim: int | None, batch_size: int) -> torch.Tensor:
    return x.expand(batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
