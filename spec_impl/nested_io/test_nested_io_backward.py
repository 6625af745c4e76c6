"""NestedIOFunction, backward: nested gradients, nested saved tensors, and calls that know nothing of one another."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError

from conformance.kit import Subject, World, cases, clause, expect, need
from spec_impl.nested_io.nested import Pair, expect_nested, mapped, nestings, tensors_in, written


@clause("NestedIOFunction.backward.nested")
def test_gradients_come_nested_like_the_result(subject: Subject, world: World) -> None:
    """backward_extended gets one gradient for each tensor of the result, nested alike, and None for all else."""
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    for name, shape in nestings(world).items():
        seen: list[Any] = []

        def forward(x: torch.Tensor, shape: Any = shape) -> Any:
            return mapped(lambda like: x.sum() * torch.ones_like(like), shape)

        def backward(ctx: Any, *grads: Any, seen: list[Any] = seen) -> Any:
            seen.append(grads)
            return (torch.zeros_like(x),)

        result = written(subject, forward, backward)(x)
        tensors = tensors_in(result)
        weights = [world.tensor(0, tuple(y.shape), y.dtype, "weight", at) for at, y in enumerate(tensors)]
        torch.autograd.backward(tensors, [weight.clone() for weight in weights])
        rest = iter(weights)
        expected = mapped(lambda _: next(rest), shape, lambda _: None)  # noqa: B023 - used in this turn only
        expect.equal(len(seen), 1, f"how often backward_extended is called for a result nested: {name}")
        expect_nested(seen[0], expected, f"gradients for a result nested: {name}; grads")


@clause("NestedIOFunction.backward.nested")
def test_single_result_gives_a_single_gradient(subject: Subject, world: World) -> None:
    """A result that is a tensor or a dict has its gradient in one argument of backward_extended."""
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    for wrap in (lambda y: y, lambda y: {"b": y, "a": None}, lambda y: {"deep": [y, 1]}):
        seen: list[Any] = []

        def backward(ctx: Any, *grads: Any, seen: list[Any] = seen) -> Any:
            seen.append(grads)
            return (torch.ones_like(x),)

        result = written(subject, lambda x, wrap=wrap: wrap(x * 2), backward)(x)
        tensors_in(result)[0].sum().backward()
        one = mapped(torch.ones_like, wrap(x.detach()), lambda _: None)
        expect_nested(seen, [(one,)], "gradients of a single result; grads")


@clause("NestedIOFunction.backward.nested")
def test_result_of_backward_is_matched_by_nesting(subject: Subject, world: World) -> None:
    """Each gradient that backward_extended returns goes to the tensor that stands in its place, dicts by key."""
    a, b, c, d = (world.tensor(0, (2, size), torch.float64, "matched").requires_grad_() for size in (1, 2, 3, 4))

    def forward(named: Any, rest: Any, scale: float) -> Any:
        return [named["a"].sum() + named["b"].sum(), rest[1][0].sum() + rest[1][1][0].sum()]

    def backward(ctx: Any, *grads: Any) -> Any:
        by_key = {"b": torch.full_like(b, 20.0), "a": torch.full_like(a, 10.0)}
        pair = Pair(torch.full_like(c, 30.0), (torch.full_like(d, 40.0),))
        return by_key, [None, pair], None

    result = written(subject, forward, backward)({"a": a, "b": b}, ["plain", Pair(c, (d,))], 0.5)
    torch.autograd.backward(result)
    for name, leaf, value in (("'a' of a dict", a, 10.0), ("'b' of a dict", b, 20.0)):
        expect.close(leaf.grad, torch.full_like(leaf, value), f"gradient of {name}")
    for name, leaf, value in (("a named tuple in a list", c, 30.0), ("a tuple in a named tuple", d, 40.0)):
        expect.close(leaf.grad, torch.full_like(leaf, value), f"gradient of a tensor in {name}")


@clause("NestedIOFunction.saved_tensors.nested")
def test_saved_tensors_keep_their_nesting(subject: Subject, world: World) -> None:
    """In backward_extended saved_tensors is what was saved: tuples, lists, named tuples, dicts and None."""
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    for name, args in nestings(world).items():
        seen: list[Any] = []
        values = mapped(lambda tensor: tensor.detach(), args, lambda _: None)

        def keep(ctx: Any, inputs: tuple[Any, ...], output: Any, values: Any = values) -> None:
            ctx.save_for_backward(*values)

        def backward(ctx: Any, *grads: Any, seen: list[Any] = seen) -> Any:
            seen.append(ctx.saved_tensors)
            return (torch.ones_like(x),)

        tensors_in(written(subject, lambda x: x * 2, backward, keep)(x))[0].sum().backward()
        expect_nested(seen, [values], f"what was saved, nested: {name}; saved_tensors")


@clause("NestedIOFunction.saved_tensors.nested")
def test_inputs_and_outputs_are_saved(subject: Subject, world: World) -> None:
    """Arguments and results can be saved, nested, and come back with their values."""
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    seen: list[Any] = []

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward({"inputs": inputs[0], "nothing": None}, [output])

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append(ctx.saved_tensors)
        _, output = tensors_in(ctx.saved_tensors)
        return ([tensors_in(grads)[0] * output],)

    result = written(subject, lambda listed: {"y": listed[0].exp()}, backward, keep)([x])
    tensors_in(result)[0].sum().backward()
    expect_nested(seen, [({"inputs": [x], "nothing": None}, [{"y": x.exp()}])], "saved_tensors")
    expect.close(x.grad, x.detach().exp(), "gradient made from a saved result")


@clause("NestedIOFunction.backward.gradient")
@cases(unused=[False, True])
def test_gradients_through_any_nesting(subject: Subject, world: World, unused: bool) -> None:
    """The gradient of every tensor, however nested, is the one that plain operations give."""
    for name, args in nestings(world).items():
        leaves = [tensor.detach().requires_grad_() for tensor in tensors_in(args)]
        rest = iter(leaves)
        given = mapped(lambda _: next(rest), args)  # noqa: B023 - used in this turn only
        result, right = tensors_in(_squared(subject, given)), tensors_in(_squares(*given))
        used = slice(1, None) if unused and len(leaves) > 1 else slice(None)
        weights = [world.tensor(0, tuple(y.shape), y.dtype, "weight") for y in right]
        actual = torch.autograd.grad(result[used], leaves, weights[used], allow_unused=True)
        plain = torch.autograd.grad(right[used], leaves, weights[used], allow_unused=True)
        for index, (one, other, leaf) in enumerate(zip(actual, plain, leaves, strict=True)):
            expected = torch.zeros_like(leaf) if other is None else other
            dense = torch.zeros_like(leaf) if one is None else one
            expect.close(dense, expected, f"gradient of tensor {index} of arguments nested: {name}")


def _squares(*args: Any) -> Any:
    """Every tensor squared, with a factor of its own."""
    factors = iter(range(2, 100))
    return mapped(lambda x: next(factors) * x * x, args)


def _squared(subject: Subject, args: tuple[Any, ...]) -> Any:
    """Do the same with a Function that saves nothing, so that only the path of gradients is tested."""
    pattern = mapped(lambda x: x.detach(), args, lambda _: None)

    def backward(ctx: Any, *grads: Any) -> Any:
        factors, given = iter(range(2, 100)), iter(tensors_in(grads))
        return mapped(lambda x: 2 * next(factors) * x * next(given), pattern)

    return written(subject, _squares, backward)(*args)


@clause("NestedIOFunction.backward.gradient")
def test_a_tensor_in_two_places_gets_both_gradients(subject: Subject, world: World) -> None:
    """A tensor that occurs twice in the arguments, and one that needs no gradient, are distinguished."""
    x, y = (world.tensor(0, (3,), torch.float64, key).requires_grad_() for key in "xy")
    fixed = world.tensor(0, (3,), torch.float64, "fixed")
    args = ({"x": x, "again": [x, fixed]}, (y, x))
    actual = torch.autograd.grad(torch.stack(tensors_in(_squared(subject, args))).sum(), [x, y])
    right = torch.autograd.grad(torch.stack(tensors_in(_squares(*args))).sum(), [x, y])
    expect.close(actual[0], right[0], "gradient of a tensor that stands in three places")
    expect.close(actual[1], right[1], "gradient of a tensor beside one that needs no gradient")


@clause("NestedIOFunction.backward.gradient")
def test_gradients_by_differences(subject: Subject, world: World) -> None:
    """Differences of the nested result along every element agree, as gradcheck takes them."""
    x, y = (world.tensor(0, (2, size), torch.float64, "x").requires_grad_() for size in (1, 2))

    def flat(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensors_in(_squared(subject, ({"x": x, "more": [y, None]}, 2))))

    try:
        torch.autograd.gradcheck(flat, (x, y))
    except GradcheckError as error:
        expect.that(False, "gradients agree with differences", str(error), "no error of gradcheck")


@clause("NestedIOFunction.forward.reused")
def test_calls_know_nothing_of_one_another(subject: Subject, world: World) -> None:
    """After several calls each backward has its own saved tensors, in whichever order they are made."""
    call = written(subject, _cube, _cube_backward, _cube_keep)
    leaves = [world.tensor(0, (3,), torch.float64, "leaf", index).requires_grad_() for index in range(3)]
    results = [tensors_in(call(leaf)) for leaf in leaves]
    for index in (1, 0, 2):
        (gradient,) = torch.autograd.grad(results[index][0].sum(), leaves[index])
        expect.close(gradient, 3 * leaves[index].detach() ** 2, f"gradient of call {index} of three")


@clause("NestedIOFunction.forward.reused")
def test_an_instance_can_be_called_again(subject: Subject, world: World) -> None:
    """One instance, called twice before backward with other nesting, gives each call its own gradient."""
    need(subject.function is not None, "a plain callable, not a class to derive from")
    need(not hasattr(subject.function, "setup_context_extended"), "the class is used without instances")

    def forward_extended(self: Any, *args: Any) -> Any:
        _cube_keep(self, args, None)
        return _cube(*args)

    members = {"forward_extended": forward_extended, "backward_extended": _cube_backward}
    instance = type("Written", (subject.function,), members)()
    first, second, third = (world.tensor(0, (3,), torch.float64, "leaf", at).requires_grad_() for at in range(3))
    one, two = tensors_in(instance(first)), tensors_in(instance(second, third))
    gradients = torch.autograd.grad(two[0].sum() + two[1].sum(), [second, third])
    gradients += torch.autograd.grad(one[0].sum(), [first])
    for gradient, leaf, name in zip(gradients, (second, third, first), ("second", "second", "first"), strict=True):
        expect.close(gradient, 3 * leaf.detach() ** 2, f"gradient of the {name} call of one instance")


def _cube(*args: torch.Tensor) -> Any:
    return tuple(x * x * x for x in args)


def _cube_keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _cube_backward(ctx: Any, *grads: Any) -> Any:
    pairs = zip(tensors_in(ctx.saved_tensors), tensors_in(grads), strict=True)
    return tuple(3 * x * x * grad for x, grad in pairs)
