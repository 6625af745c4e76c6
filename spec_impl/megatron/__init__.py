"""Return a tensor that shares a view's data but is not a view.

Source document: the page of ``megatron.core.utils.MakeViewlessTensor`` (M).
"""

from __future__ import annotations

from typing import Any

import torch

SPEC = "MakeViewlessTensor"
DOCUMENTS = {
    "M": (
        "Megatron-LM: MakeViewlessTensor",
        "https://epfllm.github.io/Megatron-LLM/api/megatron/core/megatron.core.utils.MakeViewlessTensor.html",
    ),
}


class MakeViewlessTensor(torch.autograd.Function):
    """Return a tensor over the data of ``inp`` that is not a view, and pass gradients straight through.

    A view keeps its base alive, together with the base's graph. The result of this Function shares the data but
    has no ``_base``. :func:`make_viewless_tensor` calls it with ``keep_graph=True``.

    This is the combined form. :class:`MakeViewlessTensorSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> from spec_impl.megatron import MakeViewlessTensor
        >>> x = torch.ones(2, 3, requires_grad=True)
        >>> view = x.t()
        >>> y = MakeViewlessTensor.apply(view, True)
        >>> view._base is None, y._base is None, y.data_ptr() == x.data_ptr()
        (False, True, True)
        >>> y.sum().backward()
        >>> x.grad.shape
        torch.Size([2, 3])
    """

    @staticmethod
    def forward(ctx: Any, inp: torch.Tensor, requires_grad: bool) -> torch.Tensor:
        """Share the data.

        Args:
            ctx: The context of this call.
            inp: Any shape, dtype and strides; a view or not.
            requires_grad: Has no effect here: autograd makes the result require grad if ``inp`` does. It is
                for :func:`make_viewless_tensor` without a graph.

        Returns:
            A tensor over the memory of ``inp``. The two share a version counter, so autograd notices if either is
            changed in place.

        .. clause:: MakeViewlessTensor.forward.viewless
           :level: must
           :sources: M "Autograd function to make a viewless tensor"

           The result is not a view: its ``_base`` is None, even if ``inp`` is a view.

        .. clause:: MakeViewlessTensor.forward.shares-data
           :level: must
           :sources: C megatron-core 0.16.1 megatron/core/utils.py:700-707

           The result shares the memory of ``inp`` and has its shape, strides, storage offset, dtype and device:
           nothing is copied.

        .. clause:: MakeViewlessTensor.forward.releases-base
           :level: must
           :sources: C megatron-core 0.16.1 megatron/core/utils.py:700-707

           The result does not keep the tensor alive that ``inp`` is a view of, unless that tensor is a leaf that
           requires grad.
        """
        return inp.detach()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return the gradient unchanged.

        Args:
            ctx: The context of the call.
            grad_output: The gradient of the result.

        Returns:
            ``grad_output``, and None.

        .. clause:: MakeViewlessTensor.backward.identity
           :level: must
           :sources: M "computation graph needs to be propagated", C megatron-core 0.16.1 megatron/core/utils.py:749

           The graph is kept: the gradient of ``inp`` is the gradient of the result. backward returns None for
           ``requires_grad``.
        """
        return grad_output, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """Return the tangent unchanged.

        Args:
            ctx: The context of the call.
            tangent: The tangent of ``inp``.

        Returns:
            The tangent of the result.
        """
        return tangent


class MakeViewlessTensorSeparate(torch.autograd.Function):
    """:class:`MakeViewlessTensor` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> from spec_impl.megatron import MakeViewlessTensorSeparate
        >>> torch.func.grad(lambda x: MakeViewlessTensorSeparate.apply(x.t(), True).sum())(torch.zeros(1, 2))
        tensor([[1., 1.]])
    """

    @staticmethod
    def forward(inp: torch.Tensor, requires_grad: bool) -> torch.Tensor:
        """As in the combined form."""
        return inp.detach()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Store nothing: neither derivative needs anything."""

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None]:
        """As in the combined form."""
        return grad_output, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return tangent

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], inp: torch.Tensor, requires_grad: bool
    ) -> tuple[torch.Tensor, int | None]:
        """Run on all samples of ``inp`` at once, along any dimension; ``requires_grad`` is as in forward."""
        return MakeViewlessTensorSeparate.apply(inp, requires_grad), in_dims[0]


def make_viewless_tensor(inp: torch.Tensor, requires_grad: bool, keep_graph: bool) -> torch.Tensor:
    """Return a tensor that is not a view.

    Args:
        inp: Any tensor.
        requires_grad: Whether a result without a graph requires grad.
        keep_graph: Whether gradients flow back to ``inp``.

    Returns:
        ``inp`` itself if it is not a view; otherwise a tensor over the same memory that is not a view.

    .. clause:: make_viewless_tensor.not-a-view
       :level: must
       :sources: C megatron-core 0.16.1 megatron/core/utils.py:762-764

       If ``inp`` is not a view, it is returned itself: the same object.

    .. clause:: make_viewless_tensor.keep-graph
       :level: must
       :sources: M "but we only want a viewless tensor", C megatron-core 0.16.1 megatron/core/utils.py:767-770

       For a view, ``keep_graph=True`` returns the result of MakeViewlessTensor, and gradients flow back to ``inp``.
       ``keep_graph=False`` returns a leaf without a graph, which requires grad if and only if ``requires_grad`` is
       True.

    Example:
        >>> import torch
        >>> from spec_impl.megatron import make_viewless_tensor
        >>> view = torch.ones(2, 3, requires_grad=True)[0]
        >>> make_viewless_tensor(view, requires_grad=False, keep_graph=False).requires_grad
        False
        >>> make_viewless_tensor(view, requires_grad=True, keep_graph=True).is_leaf
        False
    """
    if inp._base is None:
        return inp
    if keep_graph:
        return MakeViewlessTensor.apply(inp, requires_grad)
    return inp.detach().requires_grad_(requires_grad)
