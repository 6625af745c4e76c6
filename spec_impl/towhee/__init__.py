"""Gather a tensor from all ranks and join the parts; each rank's gradient is that of its own loss.

Source document: the page of ``towhee.models.drl.until_module.AllGather`` (T).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from spec_impl import exchange

SPEC = "AllGather"
DOCUMENTS = {"T": ("towhee: AllGather", "")}


class AllGather(torch.autograd.Function):
    """Join the tensors of all ranks of the default process group along dimension 0.

    The gradient is this rank's rows of the incoming gradient. Nothing is exchanged in backward, so the losses of
    other ranks are ignored. (If they matter, use :class:`spec_impl.ksuit.AllGatherGradAutograd`.)

    This is the combined form. :class:`AllGatherSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from spec_impl.towhee import AllGather
        >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
        >>> y = AllGather.apply(x, SimpleNamespace(world_size=1, local_rank=0))
        >>> y.detach()
        tensor([[1., 2.]])
        >>> y.sum().backward()
        >>> x.grad
        tensor([[1., 1.]])
    """

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, args: Any) -> torch.Tensor:
        """Gather and join.

        Args:
            ctx: The context of this call.
            tensor: One dimension or more, any dtype, any strides. The same shape and dtype on every rank.
            args: Any object with ``world_size``, the number of ranks, and ``local_rank``, this process's rank.

        Returns:
            A contiguous tensor with its own memory: ``world_size`` times the rows of ``tensor``, or the values
            of ``tensor`` if ``world_size`` is 1.

        Raises:
            ValueError: on every rank, if shapes or dtypes differ between ranks or ``tensor`` is 0-d; on this
                rank, if ``args`` contradicts the process group.

        .. clause:: AllGather.forward.concatenates
           :level: must
           :sources: T "performs allgather on a tensor", C towhee.models 1.1.3 towhee/models/drl/until_module.py:82-86

           Every rank gets the tensors of all ranks joined along dimension 0 in rank order, bit for bit.

        .. clause:: AllGather.forward.one-rank
           :level: must
           :sources: C towhee.models 1.1.3 towhee/models/drl/until_module.py:77-80

           If ``args.world_size`` is 1, the result has the values of ``tensor``, and neither a collective nor a
           process group is needed.

        .. clause:: AllGather.forward.mismatch
           :level: may
           :sources: ours

           If shapes or dtypes differ between ranks, or ``tensor`` is 0-d, every rank raises an error that says so.
           No rank hangs, crashes or returns meaningless numbers.

        .. clause:: AllGather.forward.args
           :level: may
           :sources: ours

           If ``args`` name another rank or another number of ranks than the process group, an error says so; only a
           ``world_size`` of 1 is accepted. Another rank's rows are never taken for this rank's.

        .. clause:: AllGather.forward.own-memory
           :level: quality
           :sources: ours

           The result shares no memory with ``tensor`` or with the result of an earlier call, even if there is one
           rank.
        """
        ctx.place = _Place(args.world_size, args.local_rank)
        return _gather(tensor, ctx.place)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Take this rank's rows.

        Args:
            ctx: The context of the call.
            grad_output: The gradient of this rank's loss with respect to the joined tensor.

        Returns:
            The gradient of ``tensor``, with its shape and dtype, and None.

        .. clause:: AllGather.backward.local-slice
           :level: must
           :sources: C towhee.models 1.1.3 towhee/models/drl/until_module.py:90-93

           The gradient of ``tensor`` is this rank's rows of the incoming gradient. Nothing is added from other
           ranks, and nothing is scaled.

        .. clause:: AllGather.backward.none-for-args
           :level: must
           :sources: T "you can just pass None as a gradient",
              C towhee.models 1.1.3 towhee/models/drl/until_module.py:92

           backward returns None for ``args``.

        .. clause:: AllGather.backward.own-memory
           :level: quality
           :sources: ours

           The gradient of ``tensor`` does not keep the gradient of the joined tensor alive.
        """
        return _own_rows(grad_output, ctx.place) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """Gather and join the tangents of all ranks.

        Args:
            ctx: The context of the call.
            tangent: The tangent of ``tensor`` on this rank; every rank has one.

        Returns:
            The tangent of the joined tensor.

        .. clause:: AllGather.jvp.gather
           :level: must
           :sources: T "forward mode automatic differentiation", ours

           The tangent of the result is the tangents of all ranks, joined in the same way.
        """
        return AllGather.apply(tangent, ctx.place)


class AllGatherSeparate(torch.autograd.Function):
    """:class:`AllGather` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from spec_impl.towhee import AllGatherSeparate
        >>> args = SimpleNamespace(world_size=1, local_rank=0)
        >>> torch.func.grad(lambda x: AllGatherSeparate.apply(x, args).sum())(torch.zeros(2))
        tensor([1., 1.])
    """

    @staticmethod
    def forward(tensor: torch.Tensor, args: Any) -> torch.Tensor:
        """As in the combined form."""
        return _gather(tensor, _Place(args.world_size, args.local_rank))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Store the two numbers on ctx, not ``args``, which may contain tensors."""
        _, args = inputs
        ctx.place = _Place(args.world_size, args.local_rank)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return _own_rows(grad_output, ctx.place) if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return AllGatherSeparate.apply(tangent, ctx.place)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], tensor: torch.Tensor, args: Any) -> tuple[torch.Tensor, int]:
        """Gather all samples at once.

        Args:
            info: Not needed.
            in_dims: The dimension of ``tensor`` that counts the samples. It may differ between ranks.
            tensor: All samples of this rank.
            args: As in forward.

        Returns:
            The joined tensor, with the samples along dimension 1. (Dimension 0 is the one that is joined.)

        .. clause:: AllGather.vmap.batched
           :level: must
           :sources: X Extending torch.func, ours

           On every rank, torch.vmap over any dimension of ``tensor`` equals gathering sample by sample.
        """
        if tensor.dim() == 1:  # samples are 0-d: works with one rank, else raises the error of forward
            return AllGatherSeparate.apply(tensor if args.world_size == 1 else tensor[0], args), 0
        return AllGatherSeparate.apply(tensor.movedim(in_dims[0], 1), args), 1


class _Place(NamedTuple):
    """The two numbers of ``args`` that forward needs; it can be passed in place of ``args``."""

    world_size: int
    local_rank: int


def _gather(tensor: torch.Tensor, place: _Place) -> torch.Tensor:
    if place.world_size == 1:
        return exchange.dense(tensor).clone()
    if (place.local_rank, place.world_size) != exchange.place(None):
        raise ValueError(
            f"args say rank {place.local_rank} of {place.world_size}, "
            f"the process group says rank {dist.get_rank()} of {dist.get_world_size()}"
        )
    return _gather_from(place.world_size, tensor)


@exchange.untraced
def _gather_from(size: int, tensor: torch.Tensor) -> torch.Tensor:
    own = exchange.dense(tensor)
    starts = exchange.agree(own, None)
    if tensor.dim() == 0:
        raise ValueError("a 0-d tensor has no dimension 0 to join along; give it one with unsqueeze(0)")
    rows, *rest = tensor.shape
    joined = tensor.new_empty((size * rows, *rest))
    exchange.gather_into(joined.chunk(size), own, starts, None)
    return joined


def _own_rows(grad: torch.Tensor, place: _Place) -> torch.Tensor:
    """Return a copy of this rank's rows: a view would keep all ranks' rows alive."""
    if place.world_size == 1:
        return grad
    rows = grad.shape[0] // place.world_size
    return grad.narrow(0, place.local_rank * rows, rows).clone(memory_format=torch.contiguous_format)
