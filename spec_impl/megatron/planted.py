"""Bugs in implementations of MakeViewlessTensor and of its helper."""

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
    """Hands the input out, which autograd then makes a view of.

    Breaks: MakeViewlessTensor.forward.viewless
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp


class AnotherView(_Right):
    """Makes a view of the view.

    Breaks: MakeViewlessTensor.forward.viewless
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.view_as(inp)


class OnlyContiguousOnes(_Right):
    """Contiguous views are unwrapped, others are handed on as views.

    Breaks: MakeViewlessTensor.forward.viewless
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.detach() if inp.is_contiguous() else inp.view_as(inp)


class Copied(_Right):
    """Copies.

    Breaks: MakeViewlessTensor.forward.shares-data
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.clone()


class MadeContiguous(_Right):
    """Copies what is not contiguous.

    Breaks: MakeViewlessTensor.forward.shares-data
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        return inp.contiguous().detach()


class OffsetLost(_Right):
    """Starts at the beginning of the memory, wherever the view starts.

    Breaks: MakeViewlessTensor.forward.shares-data
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        fresh = torch.empty(0, dtype=inp.dtype)
        return fresh.set_(inp.untyped_storage(), 0, inp.shape, inp.stride())


class StridesLost(_Right):
    """Lays the data out as if it were contiguous.

    Breaks: MakeViewlessTensor.forward.shares-data
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        fresh = torch.empty(0, dtype=inp.dtype)
        return fresh.set_(inp.untyped_storage(), inp.storage_offset(), inp.shape) if inp.numel() <= 12 else inp.detach()


class GradientDoubled(_Right):
    """Passes twice the gradient.

    Breaks: MakeViewlessTensor.backward.identity
    """

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2, None


class GraphCut(_Right):
    """Passes no gradient.

    Breaks: MakeViewlessTensor.backward.identity
    """

    @staticmethod
    def backward(ctx, grad_output):
        return None, None


class NotDifferentiable(_Right):
    """Marks the result as one without a gradient.

    Breaks: MakeViewlessTensor.backward.identity
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        result = inp.detach()
        ctx.mark_non_differentiable(result)
        return result


class GradientForTheFlag(_Right):
    """Returns a tensor for requires_grad where that is False.

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
    """Hands the gradient back in the order of the memory, not of the view.

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
    """Saves the view for a backward that does not need it.

    Breaks: MakeViewlessTensor.forward.releases-base
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        ctx.save_for_backward(inp)
        return inp.detach()


class KeptOnCtx(_Right):
    """Keeps what the input is a view of on ctx.

    Breaks: MakeViewlessTensor.forward.releases-base
    """

    @staticmethod
    def forward(ctx, inp, requires_grad):
        ctx.base = inp._base
        return inp.detach()


class KeptOnTheResult(_Right):
    """Notes on the result where it came from.

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
    """The helper keeps the graph, asked or not.

    Breaks: make_viewless_tensor.keep-graph
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        return inp if inp._base is None else HelperAlwaysKeeps.apply(inp, requires_grad)


class HelperNeverKeeps(_Right):
    """The helper drops the graph, asked or not.

    Breaks: make_viewless_tensor.keep-graph
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        return inp if inp._base is None else _without_graph(inp, requires_grad)


class HelperForgetsTheFlag(_Right):
    """A result without a graph requires grad where the input does, not where it was asked to.

    Breaks: make_viewless_tensor.keep-graph
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        if inp._base is None:
            return inp
        return HelperForgetsTheFlag.apply(inp, requires_grad) if keep_graph else _without_graph(inp, inp.requires_grad)


class HelperKeepsViews(_Right):
    """With a graph the helper returns the view itself.

    Breaks: make_viewless_tensor.keep-graph
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        return inp if inp._base is None or keep_graph else _without_graph(inp, requires_grad)


class HelperAlwaysMakes(_Right):
    """The helper makes a new tensor even for an input that is no view.

    Breaks: make_viewless_tensor.not-a-view
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        return HelperAlwaysMakes.apply(inp, requires_grad) if keep_graph else _without_graph(inp, requires_grad)


class HelperSetsTheFlag(_Right):
    """The helper changes requires_grad of an input that is no view.

    Breaks: make_viewless_tensor.not-a-view
    """

    @staticmethod
    def make_viewless_tensor(inp, requires_grad, keep_graph):
        if inp._base is None:
            return inp.requires_grad_(requires_grad) if inp.is_leaf else inp
        return HelperSetsTheFlag.apply(inp, requires_grad) if keep_graph else _without_graph(inp, requires_grad)
