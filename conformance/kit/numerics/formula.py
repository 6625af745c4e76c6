"""The gradients of a call by the formula that a subject declares."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from conformance.kit import seeds, tolerances
from conformance.kit.calls import BACKWARD_SEED, FORWARD_SEED, Run
from conformance.kit.declared import Formula, ForwardCall
from conformance.kit.deviations import NotApplicable, Skipped
from conformance.kit.display import shown
from conformance.kit.frames import told


def declared_gradients(run: Run, cotangents: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the formula's gradient of each differentiated argument, zeros if it returns None.

    The formula draws the same random numbers as the backward, so that a gradient that is random by design can be
    declared as well.

    Raises:
        NotApplicable: no formula is declared.
        Skipped: the formula raises, or returns something that is not a gradient of an argument.
    """
    sample = run.sample
    formula = sample.subject.formula
    if sample.subject.gradient_kind != "declared" or formula is None:
        raise NotApplicable("no formula is declared: the gradient is judged by differences")
    given = dict(zip(run.places, cotangents, strict=True))
    forward = ForwardCall(
        tuple(tensor.detach().clone() for tensor in run.tensors), partial(_as_forward_drew, sample.holders)
    )
    seeds.seed(BACKWARD_SEED, sample.holders)
    grads = tuple(given.get(place) for place in range(len(run.tensors)))
    declared = asked(formula, sample.arguments(), grads, forward)
    found = {}
    for at in (at for at in sample.active if at in sample.top):
        index = sample.arguments_of[at]
        value = declared[index] if index < len(declared) else None
        found[at] = torch.zeros_like(sample.values[at]).detach() if value is None else value
        if not isinstance(value, torch.Tensor | None) or found[at].shape != sample.values[at].shape:
            shape = tuple(sample.values[at].shape)
            raise Skipped(f"its formula gives {shown(value)} for {sample.name(at)}, which has the shape {shape}")
    return found


@contextmanager
def _as_forward_drew(holders: tuple[Any, ...]) -> Iterator[None]:
    """Repeat forward's random numbers within the block; after it, continue with those of backward."""
    with seeds.generators_restored():
        seeds.seed(FORWARD_SEED, holders)
        yield


def asked(
    formula: Formula, args: tuple[Any, ...], grads: tuple[torch.Tensor | None, ...], forward: ForwardCall | None = None
) -> Sequence[Any]:
    """Call a formula; return one value for each argument, with None for those that it omits at the end.

    Raises:
        Skipped: it raises, or needs a call of forward that is not available.
    """
    wants_forward = _has_parameter(formula, "forward")
    if wants_forward and forward is None:
        raise Skipped("its formula has a parameter forward, which is for spec Function")
    try:
        said = formula(args, grads, forward=forward) if wants_forward else formula(args, grads)
    except Exception as error:  # it is the caller's, and no fault of the Function
        raised = f"formula(args, grads) raises {told(error)}"
        raise Skipped(raised) from error
    return said if isinstance(said, tuple | list) else (said,)


def _has_parameter(function: Formula, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in, or without a signature
        return False


def is_linear(run: Run, cotangents: Sequence[torch.Tensor]) -> bool:
    """Whether gradients are linear in the incoming ones, as those of every backward without a formula are.

    A formula may clip incoming gradients, or add to them. Then the gradients of parts do not sum to that of the whole.
    """
    if run.sample.subject.gradient_kind != "declared":
        return True

    def at(factor: float) -> list[torch.Tensor]:
        return list(declared_gradients(run, [cotangent * factor for cotangent in cotangents]).values())

    # Clipping shows among large ones, a threshold among small ones.
    for size in (1e-3, 1.0, 1e3):
        one, two, both = at(size), at(-2 * size), at(-size)
        if not _is_zero([a + b - ab for a, b, ab in zip(one, two, both, strict=True)], one):
            return False
    return True


def _is_zero(left: Sequence[torch.Tensor], beside: Sequence[torch.Tensor]) -> bool:
    """Whether only rounding error remains, relative to the terms."""
    pairs = [(one, other) for one, other in zip(left, beside, strict=True) if one.numel()]
    near = [tolerances.of_the_same(torch.finfo(one.dtype).eps) for one, _ in pairs]
    return all(bool(a.abs().max() <= part * b.abs().max()) for part, (a, b) in zip(near, pairs, strict=True))
