"""Planted bugs in implementations of MakeViewlessTensor and of its helper."""

from __future__ import annotations

import torch
from torch.autograd import Function


class _Right(Function):
    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.detach()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


class ReturnsItsInput(_Right):
    """Returns its input, which autograd turns into a view.

    Breaks: MakeViewlessTensor.forward.viewless
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp


class AnotherView(_Right):
    """Returns a view of the view.

    Breaks: MakeViewlessTensor.forward.viewless
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.view_as(inp)


class OnlyContiguousOnes(_Right):
    """Unwraps contiguous views only; others are returned as views.

    Breaks: MakeViewlessTensor.forward.viewless
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.detach() if inp.is_contiguous() else inp.view_as(inp)


class Copied(_Right):
    """Copies the input instead of sharing its data.

    Breaks: MakeViewlessTensor.forward.shares-data
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.clone()


class MadeContiguous(_Right):
    """Copies the input if it is not contiguous.

    Breaks: MakeViewlessTensor.forward.shares-data
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.contiguous().detach()


class OffsetLost(_Right):
    """Starts at the beginning of the storage, ignoring the view's offset.

    Breaks: MakeViewlessTensor.forward.shares-data
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        fresh = torch.empty(0, dtype=inp.dtype)
        return fresh.set_(inp.untyped_storage(), 0, inp.shape, inp.stride())


class StridesLost(_Right):
    """Ignores the strides of the view.

    Breaks: MakeViewlessTensor.forward.shares-data
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        fresh = torch.empty(0, dtype=inp.dtype)
        return fresh.set_(inp.untyped_storage(), inp.storage_offset(), inp.shape) if inp.numel() <= 12 else inp.detach()


class GradientDoubled(_Right):
    """Returns twice the gradient.

    Breaks: MakeViewlessTensor.backward.identity
    """

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2, None


class GraphCut(_Right):
    """Returns None as the gradient.

    Breaks: MakeViewlessTensor.backward.identity
    """

    @staticmethod
    def backward(ctx, grad_output):
        return None, None


class NotDifferentiable(_Right):
    """Marks the result as non-differentiable.

    Breaks: MakeViewlessTensor.backward.identity
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        result = inp.detach()
        ctx.mark_non_differentiable(result)
        return result


class GradientForTheFlag(_Right):
    """Returns a tensor as the gradient of requires_grad if that is False.

    Breaks: MakeViewlessTensor.backward.identity
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        ctx.asked = requires_grad
        return inp.detach()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None if ctx.asked else torch.zeros(())


class FlattenedGradient(_Right):
    """Returns the gradient in memory order instead of the order of the view.

    Breaks: MakeViewlessTensor.backward.identity
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        ctx.turned = inp.dim() == 2 and inp.stride(0) < inp.stride(1)
        return inp.detach()

    @staticmethod
    def backward(ctx, grad_output):
        if ctx.turned:
            return grad_output.reshape(grad_output.shape[::-1]).t(), None
        return grad_output, None


class SavesTheView(_Right):
    """Saves the view, although backward does not need it.

    Breaks: MakeViewlessTensor.forward.releases-base
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        ctx.save_for_backward(inp)
        return inp.detach()


class KeptOnCtx(_Right):
    """Keeps the view's base on ctx.

    Breaks: MakeViewlessTensor.forward.releases-base
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        ctx.base = inp._base
        return inp.detach()


class KeptOnTheResult(_Right):
    """Sets an attribute on the result that refers to the input.

    Breaks: MakeViewlessTensor.forward.releases-base
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        result = inp.detach()
        result.made_from = inp
        return result


def _without_graph(inp, requires_grad):
    return inp.detach().requires_grad_(requires_grad)


class HelperAlwaysKeeps(_Right):
    """Keeps the graph in the helper, whatever keep_graph says.

    Breaks: make_viewless_tensor.keep-graph
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        return inp if inp._base is None else HelperAlwaysKeeps.apply(inp, requires_grad)


class HelperNeverKeeps(_Right):
    """Drops the graph in the helper, whatever keep_graph says.

    Breaks: make_viewless_tensor.keep-graph
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        return inp if inp._base is None else _without_graph(inp, requires_grad)


class HelperForgetsTheFlag(_Right):
    """Copies requires_grad from the input instead of the argument if keep_graph is False.

    Breaks: make_viewless_tensor.keep-graph
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        if inp._base is None:
            return inp
        return HelperForgetsTheFlag.apply(inp, requires_grad) if keep_graph else _without_graph(inp, inp.requires_grad)


class HelperKeepsViews(_Right):
    """Returns the view itself from the helper if keep_graph is True.

    Breaks: make_viewless_tensor.keep-graph
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        return inp if inp._base is None or keep_graph else _without_graph(inp, requires_grad)


class HelperAlwaysMakes(_Right):
    """Makes a new tensor in the helper even if the input is not a view.

    Breaks: make_viewless_tensor.not-a-view
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        return HelperAlwaysMakes.apply(inp, requires_grad) if keep_graph else _without_graph(inp, requires_grad)


class HelperSetsTheFlag(_Right):
    """Changes requires_grad of an input that is not a view.

    Breaks: make_viewless_tensor.not-a-view
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        if inp._base is None:
            return inp.requires_grad_(requires_grad) if inp.is_leaf else inp
        return HelperSetsTheFlag.apply(inp, requires_grad) if keep_graph else _without_graph(inp, requires_grad)
