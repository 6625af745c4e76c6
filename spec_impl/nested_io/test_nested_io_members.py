"""NestedIOFunction: apply, needs_input_grad, set_materialize_grads, gradients that do not fit, and vmap."""

from __future__ import annotations

import re
from typing import Any

import torch

from conformance.kit import Subject, World, cases, clause, expect, need
from conformance.kit.backward import has_own_apply
from spec_impl.nested_io.nested import expect_nested, tensors_in, written


@clause("NestedIOFunction.apply.instance")
def test_apply_calls_a_new_instance(subject: Subject, world: World) -> None:
    """The apply of the class gives the nested result that a new instance gives, and its gradients."""
    need(subject.function is not None, "a plain callable, not a class to derive from")
    need(
        not hasattr(subject.function, "setup_context_extended"), "the class has no instances: apply is how it is called"
    )
    need(has_own_apply(subject.function), "it has no apply of its own: instances are called")
    members = {
        "forward_extended": lambda self, named, scale: {"y": [named["x"] * scale, None]},
        "backward_extended": lambda self, grads: ({"x": grads["y"][0] * 3}, None),
    }
    made = type("Written", (subject.function,), members)
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    actual = made.apply({"x": x}, 3.0)  # type: ignore[attr-defined]
    expect_nested(actual, made()({"x": x.detach()}, 3.0), "result of apply, compared with an instance's")
    (gradient,) = torch.autograd.grad(tensors_in(actual)[0].sum(), x)
    expect.close(gradient, torch.full_like(x, 3.0), "gradient through apply")


@clause("NestedIOFunction.needs_input_grad.nested")
@cases(needed=["all", "one", "none but one in a list"])
def test_needs_input_grad_is_nested_like_the_arguments(subject: Subject, world: World, needed: str) -> None:
    """needs_input_grad, nested like the arguments, is True for each tensor that needs a gradient, otherwise False."""
    offered = hasattr(subject.function, "setup_context_extended") or subject.defines("needs_input_grad")
    need(offered, "a subclass has no needs_input_grad")
    wanted = {"all": (True, True, True), "one": (True, False, False), "none but one in a list": (False, False, True)}
    a, b, c = (
        world.tensor(0, (2,), torch.float64, key).requires_grad_(need)
        for key, need in zip("abc", wanted[needed], strict=True)
    )
    seen: dict[str, Any] = {}

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        seen["forward"] = getattr(ctx, "needs_input_grad", None)

    def backward(ctx: Any, *grads: Any) -> Any:
        seen["backward"] = getattr(ctx, "needs_input_grad", None)
        return None, None, None, None

    call = written(subject, lambda pair, rest, plain, last: pair[0] * 2 + rest["c"][0], backward, keep)
    result = call([a, b], {"c": [c, None]}, 2.5, [])
    tensors_in(result)[0].sum().backward()
    flags = iter(wanted[needed])
    expected: Any = ([next(flags), next(flags)], {"c": [next(flags), False]}, False, [])
    for where, actual in seen.items():
        expect_nested(actual, expected, f"needs_input_grad in {where}, where {needed} of three tensors need a gradient")


@clause("NestedIOFunction.set_materialize_grads.nested")
@cases(value=[True, False])
def test_gradients_that_nobody_computed(subject: Subject, world: World, value: bool) -> None:
    """A result that no loss used has zeros at its place, or None after set_materialize_grads(False)."""
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    seen: list[Any] = []

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.set_materialize_grads(value)

    def backward(ctx: Any, grads: Any) -> Any:
        seen.append(grads)
        return (grads["used"] * 2,)

    result = written(subject, lambda x: {"used": x * 2, "not": [x * 3]}, backward, keep)(x)
    tensors_in(result)[0].sum().backward()
    unused = torch.zeros_like(x) if value else None
    expect_nested(
        seen, [{"used": torch.ones_like(x), "not": [unused]}], f"gradients after set_materialize_grads({value})"
    )


#: What backward_extended returns for the argument ``{"inner": ...}``, and words that the error must have.
_MISFITS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "a list for a dict": ({"key": 1.0}, [1.0], (r"\bdict\b", r"\blist\b", "'key'")),
    "a key that is not there": ({"key": 1.0}, {"strange": 1.0}, (r"\bdict\b", "'key'", "'strange'")),
    "a list that is too long": ([1.0, 1.0], [1.0] * 7, (r"\b2\b", r"\b7\b", r"\blist\b")),
    "a list that is too short": ([1.0] * 3, [1.0] * 2, (r"\b3\b", r"\b2\b", r"\blist\b")),
    "a tensor for a list": ([1.0, 1.0], 1.0, (r"\blist\b", r"(?i)tensor|parameter")),
    "a number for a tensor": (1.0, 0.5, (r"(?i)\btensor\b", r"\bfloat\b")),
    "a tensor for a number": (7, 1.0, (r"\bNone\b|no tensor",)),
}


@clause("NestedIOFunction.backward.mismatch")
@cases(
    kind=[
        "a list for a dict", "a key that is not there", "a list that is too long", "a list that is too short",
        "a tensor for a list", "a number for a tensor", "a tensor for a number",
    ]
)  # fmt: skip
def test_gradients_that_do_not_fit(subject: Subject, world: World, kind: str) -> None:
    """Gradients not nested like the arguments raise an error with the place, the actual and the expected nesting."""
    shape, wrong, words = _MISFITS[kind]

    def filled(pattern: Any) -> Any:
        if isinstance(pattern, dict):
            return {key: filled(part) for key, part in pattern.items()}
        if isinstance(pattern, list):
            return [filled(part) for part in pattern]
        return torch.ones(2, dtype=torch.float64, requires_grad=True) if pattern == 1.0 else pattern

    x = world.tensor(0, (2,), torch.float64, "x").requires_grad_()
    call = written(subject, lambda x, rest: x * 2, lambda ctx, *grads: (grads[0] * 2, {"inner": filled(wrong)}))
    (result,) = tensors_in(call(x, {"inner": filled(shape)}))
    what = f"an error for a backward_extended that returns {kind}"
    error = expect.raises((ValueError, TypeError, RuntimeError, KeyError), result.sum().backward, what)
    for word in ("inner", *words):
        expect.that(re.search(word, str(error)), f"{what}: the error names place, actual and expected value",
                    str(error), f"{word} in its text")  # fmt: skip


@clause("NestedIOFunction.vmap.batched")
@cases(in_dims=[(0, 0), (0, 1), (None, 0)])
def test_vmap_over_nested_tensors(subject: Subject, world: World, in_dims: tuple[int | None, int]) -> None:
    """torch.vmap over tensors in dicts and lists gives results and gradients as sample by sample."""
    need(hasattr(subject.function, "setup_context_extended"), "torch.vmap accepts only the separate form")
    places = tuple(in_dims)  # a case may come as a list, of which vmap thinks otherwise
    x = world.tensor(0, (3, 2) if in_dims[0] == 0 else (2,), torch.float64, "x")
    y = world.tensor(0, (3, 2) if in_dims[1] == 0 else (2, 3), torch.float64, "y")

    def backward(ctx: Any, *grads: Any) -> Any:
        (_, y), (grad,) = tensors_in(ctx.saved_tensors), tensors_in(grads)
        return {"x": 2.0 * grad * y, "more": [2.0 * grad * tensors_in(ctx.saved_tensors)[0], None]}

    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    call = written(subject, lambda of: {"product": [of["x"] * of["more"][0] * of["more"][1]]}, backward, keep)

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return tensors_in(call({"x": x, "more": [y, 2.0]}))[0]

    def slopes(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.func.grad(lambda x, y: product(x, y).sum(), argnums=(0, 1))(x, y)

    first, second = x if in_dims[0] == 0 else x.expand(3, 2), y if in_dims[1] == 0 else y.t()
    expect.close(torch.vmap(product, places)(x, y), 2 * first * second, f"result under vmap, in_dims={in_dims}")
    by_x, by_y = torch.vmap(slopes, places)(x, y)
    expect.close(by_x, 2 * second, f"gradient of a tensor in a dict under vmap, in_dims={in_dims}")
    expect.close(by_y, 2 * first, f"gradient of a tensor in a list under vmap, in_dims={in_dims}")
