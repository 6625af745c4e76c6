"""An operator under the transforms of ``torch.func``: right numbers, or an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.kit import NotApplicable, cases, clause, expect, need
from operator_spec.spec import call, definition_of, has_formula, tensors_in
from operator_spec.variants import NO_FORMULA, fresh, is_number, leaves_of

#: How PyTorch's own formulas fare: see the issues.
ISSUES = "pytorch/pytorch#168393, #170834, #179652"
ZEROS = (
    "PyTorch {version} gives tangents of zero for an operator without a jvp, where it should raise: the kernel that "
    "torch/_library/autograd.py makes asks for requires_grad alone; no issue of PyTorch's was found"
)


@clause("Operator.func.transforms")
@cases(transform=["grad", "vjp", "jacrev", "vmap of grad"])
def test_a_transform_gives_the_gradient_or_raises(subject: Any, world: Any, transform: str) -> str:
    """The gradients of eager mode; one that raises gives nothing wrong."""
    need(has_formula(subject.target), NO_FORMULA)
    raised = set()
    for sample in subject.samples(world):
        args = fresh(sample.args)
        place, x = _first(args)
        wanted = _eager(subject, sample.args, place)
        try:
            found = TRANSFORMS[transform](_loss(subject, args, place), x)
        except Exception as error:
            raised.add(type(error).__name__)
            continue
        what = f"torch.func, {transform}, of sample {sample.label}: the gradient of argument {place}"
        expect.close(found, wanted, what)
    known = f" ({ISSUES})" if definition_of(subject.target) else ""
    return f"it raises {', '.join(sorted(raised))}{known}" if raised else ""


@clause("Operator.jvp.refused")
def test_forward_mode_gives_the_tangent_or_raises(subject: Any, world: Any) -> None:
    """Never zeros because nobody registered a jvp."""
    need(has_formula(subject.target), NO_FORMULA)
    for sample in subject.samples(world):
        args = fresh(sample.args)
        place, x = _first(args)
        gradient = _eager(subject, sample.args, place)
        tangent = gradient.conj() if gradient.any() else torch.ones_like(x)
        try:
            _, found = torch.func.jvp(_loss(subject, args, place), (x,), (tangent,))
        except Exception:
            continue
        wanted = (gradient * tangent).sum().real.to(found.dtype)
        if definition_of(subject.target) and not found.any() and wanted.any():
            raise NotApplicable(ZEROS.format(version=torch.__version__))
        expect.close(found, wanted, f"tangent by torch.func.jvp, sample {sample.label}, against backward's gradient")


def _first(args: tuple[Any, ...]) -> tuple[int, torch.Tensor]:
    """Return the first argument that can be differentiated, and its place."""
    found = [(place, x) for place, x in enumerate(args) if isinstance(x, torch.Tensor) and is_number(x)]
    need(found, "no argument is a tensor that can be differentiated")
    return found[0]


def _loss(subject: Any, args: tuple[Any, ...], place: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the sum of all results as a function of one argument."""
    return lambda x: _sum(call(subject.target, (*args[:place], x, *args[place + 1 :])))


def _sum(results: Any) -> torch.Tensor:
    return sum(tensor.sum().real for tensor in tensors_in(results) if is_number(tensor))  # type: ignore[return-value]


def _eager(subject: Any, args: tuple[Any, ...], place: int) -> torch.Tensor:
    leaves = leaves_of(args)
    try:
        (found,) = torch.autograd.grad(_sum(call(subject.target, leaves)), leaves[place], materialize_grads=True)
    except Exception as error:
        raise NotApplicable(f"in eager mode it raises {type(error).__name__}: {error}") from error
    return found


def _vjp(loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    value, pull = torch.func.vjp(loss, x)
    return pull(torch.ones_like(value))[0]


def _vmap_of_grad(loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(torch.func.grad(loss))(torch.stack([x, x]))[1]


TRANSFORMS: dict[str, Callable[..., torch.Tensor]] = {
    "grad": lambda loss, x: torch.func.grad(loss)(x),
    "vjp": _vjp,
    "jacrev": lambda loss, x: torch.func.jacrev(loss)(x),
    "vmap of grad": _vmap_of_grad,
}
