"""What the witness sees, and that nothing of it stays behind."""

from __future__ import annotations

import torch
from torch.autograd import Function

from conformance.kit.graph import functions_behind
from conformance.kit.observation.witness import witnessing


class Inner(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


class Outer(Function):
    @staticmethod
    def forward(x, factor=2.0):
        return Inner.apply(x) * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.set_materialize_grads(False)

    @staticmethod
    def vjp(ctx, grad):
        ctx.save_for_forward(grad)
        return grad * 2, None


class Heir(Inner):
    """Inherits everything."""


def test_each_ctx_has_its_own_steps():
    before = dict(vars(Inner)), dict(vars(Outer)), dict(vars(Outer._backward_cls))
    with witnessing(Inner, Outer) as witness:
        x = torch.ones(2, requires_grad=True)
        y = Outer.apply(x)
        y.sum().backward()
        y.grad_fn.set_materialize_grads(True)
    assert (dict(vars(Inner)), dict(vars(Outer)), dict(vars(Outer._backward_cls))) == before
    inner, outer = witness.calls
    assert [(step.method, step.phase) for step in inner.steps] == [("save_for_backward", "forward")]
    assert [(step.method, step.phase) for step in outer.steps] == [
        ("save_for_backward", "setup_context"),
        ("set_materialize_grads", "setup_context"),
        ("save_for_forward", "backward"),
        ("set_materialize_grads", "outside"),
    ]
    assert outer.inputs[1] == 2.0
    assert outer.inputs[0] is x
    assert len(outer.backwards) == 1
    assert len(outer.backwards[0].returned) == 2


def test_inherited_methods_are_watched_and_put_back():
    with witnessing(Heir) as witness:
        result = Heir.apply(torch.ones(1, requires_grad=True))
    assert [call.function for call in witness.calls] == [Heir]
    assert "forward" not in vars(Heir)
    assert functions_behind(result * 2) == [Heir]


def test_changed_inputs_are_seen_through_any_alias():
    class Quiet(Function):
        @staticmethod
        def forward(ctx, x, y):
            y.numpy()[0] = float("nan")
            return x * 1

    with witnessing(Quiet) as witness:
        Quiet.apply(torch.ones(2), torch.ones(2))
        Quiet.apply(torch.ones(2), torch.tensor([float("nan"), 1.0]))
    assert [call.changed for call in witness.calls] == [(1,), ()]
