"""What PyTorch promises about instances, and about members kept for old code."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from conformance.kit import World, cases, clause, expect
from conformance.kit.functions import build, expect_values, leaf, nothing, tensor


def _warned(action: Any) -> tuple[Any, list[type[Warning]]]:
    """Return the action's result, and the categories of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = action()
    return value, [warning.category for warning in caught]


def _expect_warning(warned: list[type[Warning]], what: str) -> None:
    deprecated = (DeprecationWarning, FutureWarning, PendingDeprecationWarning)
    expect.that(any(issubclass(category, deprecated) for category in warned), what, warned, "a warning of deprecation")


@clause("Function.attributes.deprecated")
@cases(form=["combined", "separate"])
def test_old_members_say_so(world: World, form: str) -> None:
    """mark_shared_storage warns and does nothing; saved_variables, if it exists, warns and equals saved_tensors."""
    seen: dict[str, Any] = {}

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0], output)
        seen["mark_shared_storage"] = _warned(lambda: ctx.mark_shared_storage((inputs[0], output)))
        seen["asked"] = ctx.dirty_tensors, ctx.non_differentiable

    def backward(ctx: Any, grad: Any) -> Any:
        seen["saved"] = len(ctx.saved_tensors)
        if hasattr(type(ctx), "saved_variables"):
            seen["saved_variables"] = *_warned(lambda: ctx.saved_variables), ctx.saved_tensors
        return grad * 3

    x = leaf(world, 1.0, 2.0)
    build(form, lambda x: x * 3, keep, backward=backward).apply(x).sum().backward()
    _, warned = seen["mark_shared_storage"]
    _expect_warning(warned, "PyTorch's mark_shared_storage warns that it is deprecated")
    expect.equal(seen["asked"], (None, None), "tensors marked on ctx, untouched by PyTorch's mark_shared_storage")
    expect.equal(seen["saved"], 2, "number of saved tensors, untouched by PyTorch's mark_shared_storage")
    expect.equal(x.grad, tensor(world, 3.0, 3.0), "gradient after mark_shared_storage was called")
    if "saved_variables" in seen:
        actual, warned, saved = seen["saved_variables"]
        _expect_warning(warned, "PyTorch's saved_variables warns that it is deprecated")
        expect_values(actual, saved, "PyTorch's saved_variables, compared with saved_tensors")


@clause("Function.attributes.deprecated")
def test_nothing_is_traceable(world: World) -> None:
    """is_traceable, if PyTorch still has it, is False on a class that does not set it."""
    actual = getattr(build("separate", lambda x: x), "is_traceable", False)
    expect.equal(actual, False, "PyTorch's is_traceable")


@clause("Function.init.instance")
@cases(form=["combined", "separate"], arguments=[[], [1, "text"]])
def test_an_instance_warns_and_cannot_be_called(world: World, form: str, arguments: list[Any]) -> None:
    """Making an instance gives a DeprecationWarning; calling it raises RuntimeError, and forward is not run."""
    ran: list[Any] = []
    function = build(form, lambda *inputs: ran.append(inputs), nothing)
    instance, warned = _warned(lambda: function(*arguments))
    told = any(issubclass(category, DeprecationWarning) for category in warned)
    expect.that(told, "PyTorch warns when an instance of a Function is made", warned, "DeprecationWarning")
    for given in ((), (tensor(world, 1.0),), (leaf(world, 1.0), 2)):
        what = f"PyTorch: calling an instance of a Function with {len(given)} arguments raises"
        expect.raises(RuntimeError, partial(instance, *given), what)
    expect.equal(len(ran), 0, "number of times PyTorch ran forward for an instance")
