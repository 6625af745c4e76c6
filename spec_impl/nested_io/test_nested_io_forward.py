"""NestedIOFunction, forward: nested arguments and results, and tensors marked anywhere in them."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from conformance.kit import Subject, World, cases, clause, expect
from spec_impl.nested_io.nested import Pair, expect_nested, mapped, nestings, tensors_in, written


@clause("NestedIOFunction.forward.nested")
def test_arguments_keep_their_nesting(subject: Subject, world: World) -> None:
    """forward_extended receives tuples, lists, named tuples, dicts, None and plain values unchanged."""
    seen: list[Any] = []

    def forward(*args: Any) -> Any:
        seen.append(args)
        return [tensor * 2 for tensor in tensors_in(args)]

    call = written(subject, forward)
    for name, args in nestings(world).items():
        call(*args)
        expect_nested(seen[-1], args, f"arguments of forward_extended, nested: {name}; args")


@clause("NestedIOFunction.forward.nested")
def test_result_keeps_its_nesting(subject: Subject, world: World) -> None:
    """The caller gets what forward_extended returned, with its own nesting."""
    for name, args in nestings(world).items():
        tensors = tensors_in(args)

        def forward(*flat: torch.Tensor, args: Any = args) -> Any:
            rest = iter(flat)
            return mapped(lambda _: next(rest) * 2, args)

        expected = mapped(lambda tensor: tensor * 2, args)
        expect_nested(written(subject, forward)(*tensors), expected, f"result, nested: {name}; result")


@clause("NestedIOFunction.forward.nested")
def test_results_may_be_single(subject: Subject, world: World) -> None:
    """A result that is a single tensor, dict or named tuple is returned as such."""
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    for wrap in (lambda y: y, lambda y: {"only": y}, lambda y: Pair(y, None), lambda y: [y], lambda y: (y,)):
        result = written(subject, lambda x, wrap=wrap: wrap(x * 2))(x)
        expect_nested(result, wrap(x * 2), "result")


@clause("NestedIOFunction.forward.nested")
def test_nested_tensors_have_a_graph(subject: Subject, world: World) -> None:
    """Tensors of a nested result require grad if a nested argument does, and forward itself records nothing."""
    recorded: list[bool] = []

    def forward(pair: Any) -> Any:
        result = {"sum": pair["x"] + pair["more"][0]}
        recorded.append(result["sum"].requires_grad)
        return result

    call = written(subject, forward)
    x, y = (world.tensor(0, (3,), torch.float64, key) for key in "xy")
    with_grad = call({"x": x, "more": [y.clone().requires_grad_()]})["sum"]
    without = call({"x": x, "more": [y]})["sum"]
    expect.that(with_grad.requires_grad, "requires_grad of the result, an argument in a list requires it", False, True)
    expect.that(not without.requires_grad, "requires_grad of the result, no argument requires it", True, False)
    expect.that(not any(recorded), "gradients are recorded while forward_extended runs", True, False)


class Holder:
    """An object that contains a tensor and is not a container."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


@clause("NestedIOFunction.forward.bad-type")
@cases(kind=["set", "Holder"])
def test_argument_of_another_type_is_refused(subject: Subject, world: World, kind: str) -> None:
    """An argument that cannot be nested raises an error with its type and its place."""
    x = world.tensor(0, (2,), torch.float64, "x").requires_grad_()
    bad = {x} if kind == "set" else Holder(x)
    call = written(subject, lambda *args: x.detach() * 2)
    error = expect.raises(
        (TypeError, ValueError, RuntimeError),
        lambda: call([x], {"outer": [x, {"inner": bad}]}),
        f"a {kind} among the arguments raises an error that names its type",
        match=kind,
    )
    expect.that("inner" in str(error), f"the error names the place of the {kind}", error, "a path with 'inner' in it")


@clause("NestedIOFunction.forward.bad-type")
@cases(kind=["set", "Holder"])
def test_result_of_another_type_is_refused(subject: Subject, world: World, kind: str) -> None:
    """A result that cannot be nested raises an error with its type and its place."""
    x = world.tensor(0, (2,), torch.float64, "x").requires_grad_()

    def forward(x: torch.Tensor) -> Any:
        return {"fine": x * 2, "inner": {x * 3} if kind == "set" else Holder(x * 3)}

    error = expect.raises(
        (TypeError, ValueError, RuntimeError),
        lambda: written(subject, forward)(x),
        f"a {kind} in the result raises an error that names its type",
        match=kind,
    )
    expect.that("inner" in str(error), f"the error names the place of the {kind}", error, "a path with 'inner' in it")


@clause("NestedIOFunction.mark_dirty.nested")
@cases(how=["nested", "by name", "both"])
def test_dirty_tensors_anywhere(subject: Subject, world: World, how: str) -> None:
    """A tensor changed in place is marked wherever it stands in the arguments of mark_dirty, keyword or not."""
    leaf, other = (world.tensor(0, (3,), torch.float64, key).requires_grad_() for key in ("leaf", "other"))

    def forward(named: Any, rest: Any) -> Any:
        return {"x": named["x"].mul_(3), "y": rest[0][0].mul_(5)}

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        named, rest = inputs
        if how == "nested":
            ctx.mark_dirty([named], ({"deep": rest},))
        elif how == "by name":
            ctx.mark_dirty(one=named, two=[rest])
        else:
            ctx.mark_dirty(named, two=rest)

    def backward(ctx: Any, *grads: Any) -> Any:
        first, second = tensors_in(grads)
        return {"x": first * 3}, [(second * 5,)]

    x, y = leaf * 1, other * 1
    result = written(subject, forward, backward, keep)({"x": x}, [(y,)])
    expect_nested(tensors_in(result), [leaf * 3, other * 5], "result of a call that changes its arguments in place")
    expect_nested([x, y], [leaf * 3, other * 5], "the arguments afterwards")
    # Only if it was marked does autograd know that x itself is now a result of the call.
    weight = world.tensor(0, (3,), torch.float64, "weight")
    gradients = torch.autograd.grad((x * weight).sum() + (y * weight).sum(), [leaf, other])
    for name, gradient, factor in zip(("a dict", "a list and tuple"), gradients, (3, 5), strict=True):
        what = f"gradient through a tensor in {name} that was changed in place and marked, {how}"
        expect.close(gradient, factor * weight, what, alternatives={"the mark was lost": weight})


@clause("NestedIOFunction.mark_non_differentiable.nested")
@cases(how=["nested", "by name", "both"])
def test_non_differentiable_tensors_anywhere(subject: Subject, world: World, how: str) -> None:
    """A result is marked wherever it stands in the arguments of mark_non_differentiable, keyword or not."""
    x = world.tensor(0, (4,), torch.float64, "x").requires_grad_()

    def forward(x: torch.Tensor) -> Any:
        return {"double": x * 2, "signs": [x.sign(), {"rounded": x.round()}], "order": x.argsort()}

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if how == "nested":
            ctx.mark_non_differentiable([output["signs"]], {"more": output["order"]})
        elif how == "by name":
            ctx.mark_non_differentiable(signs=output["signs"], order=(output["order"],))
        else:
            ctx.mark_non_differentiable(output["order"], signs=output["signs"])

    def backward(ctx: Any, *grads: Any) -> Any:
        return (tensors_in(grads)[0] * 2,)

    double, *marked = tensors_in(written(subject, forward, backward, keep)(x))
    for name, tensor in zip(("in a list", "in a dict in a list", "alone"), marked, strict=True):
        expect.equal(tensor.requires_grad, False, f"requires_grad of a result {name}, marked {how}")
    expect.equal(double.requires_grad, True, "requires_grad of the result that is not marked")
    double.sum().backward()
    expect.close(x.grad, torch.full_like(x, 2.0), "gradient through the result that is not marked")


@clause("NestedIOFunction.forward_extended.overridden")
def test_forward_extended_is_needed(subject: Subject, world: World) -> None:
    """A class without a forward_extended of its own raises NotImplementedError when called."""
    x = world.tensor(0, (2,), torch.float64, "x").requires_grad_()
    call = written(subject, None, lambda ctx, *grads: grads)
    for args in ((x,), ([x], {"a": x})):
        what = "a call without a forward_extended raises"
        expect.raises(NotImplementedError, partial(call, *args), what)


@clause("NestedIOFunction.forward_extended.overridden")
def test_backward_extended_is_needed(subject: Subject, world: World) -> None:
    """A class without a backward_extended of its own raises NotImplementedError when its result is differentiated."""
    x = world.tensor(0, (2,), torch.float64, "x").requires_grad_()
    result = tensors_in(written(subject, lambda x: x * 2)(x))
    what = "differentiating without a backward_extended raises"
    expect.raises(NotImplementedError, partial(torch.autograd.backward, result, result), what)
