"""The gradient of samples derived from the given ones: other layouts, empty along the first dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from conformance.kit import Deviation, Probe, Run, SampleCall, World, cases, clause, expect, need
from conformance.kit.modes import UndefinedMode
from conformance.kit.numerics.formula import declared_gradients
from conformance.kit.numerics.nearby import perturbed
from conformance.kit.numerics.slopes import epsilon
from conformance.kit.variations.layouts import (
    LAYOUTS,
    Arrange,
    MisreadMode,
    changes,
    in_layout,
    in_order,
    read_in_order,
    with_layout_values,
    writes_into_shared,
)
from conformance.kit.variations.sizes import GROWN, is_read, resized
from conformance.kit.variations.variants import (
    GRADIENT_TOLERANCES,
    Mismatch,
    confirmed_nearby,
    draws_by_any_seed,
    repeatable,
    same_outputs,
    without_rows,
    worst_error,
)

#: What two calls are compared by: their results, or the gradients.
ReadTensors = Callable[[Run], list[torch.Tensor]]
EMPTY = "empty along the first dimension"


@clause("Function.backward.gradient")
@cases(
    layout=[
        "contiguous",
        "transposed in memory",
        "sliced out of wider memory",
        "cut out of longer memory",
        "channels last",
        "expanded along the first dimension",
    ]
)
def test_layout_of_inputs_makes_no_difference(probe: Probe, layout: str) -> None:
    """Inputs in another layout give the results and gradients of contiguous ones, or raise an error."""
    world, sample, arrange = probe.world, repeatable(probe.sample, probe.world), LAYOUTS[layout]
    refused = f"it accepts no sample that is {layout}, or every sample is so already"
    start = with_layout_values(sample, arrange)
    need(all(world.exchange(changes(sample, arrange))), refused)
    probe.unless_refused(refused, _taken, start, arrange, world)
    probe.unless_refused(refused, in_layout, start, arrange)
    wrong = confirmed_nearby(start, world, lambda point: _by_layout(point, world, arrange, layout))
    if wrong:
        actual, right = expect.shown_apart(wrong.actual, wrong.right)
        raise Deviation(f"{wrong} of the sample as it is", actual, right, wrong.likely)


def _taken(sample: SampleCall, arrange: Arrange | None, world: World) -> bool | None:
    """Differentiate a sample; None if it changes what a layout would expand."""
    run = sample.run()
    _differentiate(run, world)
    return None if arrange and writes_into_shared(run, arrange) else True


def _by_layout(point: SampleCall, world: World, arrange: Arrange, layout: str) -> Mismatch | None:
    """A result or gradient that changes, beyond rounding, if inputs lie otherwise in memory."""
    point = with_layout_values(point, arrange)
    base = point.run()
    cotangents = base.cotangents(world)

    def results(run: Run) -> list[torch.Tensor]:
        return [output.detach().clone() for output in run.outputs]

    def gradients(run: Run) -> list[torch.Tensor]:
        return run.filled(run.gradients(cotangents))

    right = {results: results(base), gradients: gradients(base)}
    near = GRADIENT_TOLERANCES[_coarsest([*right[results], *base.leaves.values()])]
    run = in_layout(point, arrange)
    if not same_outputs(base, run, world):
        return None
    for look, expected in right.items():
        actual = world.try_call(look, run)
        if actual is None:
            return None  # an error is no wrong gradient; Function.backward.any-input speaks of it
        gap, place = worst_error(actual, expected)
        if not any(world.exchange(gap > near)):
            continue
        rough = _roughness(point, look, expected, world)
        tolerance = near + 3 * rough
        if any(world.exchange(rough >= 1)):
            return None  # rounding alone decides what comes out
        if any(world.exchange(gap > tolerance)) and not (
            _is_misread(point, arrange, look, world) or draws_by_any_seed(point, world)
        ):
            who, what = "forward", f"result of {point.label}"
            if look is gradients:
                who, what = "backward", f"gradient of {point.name(list(base.leaves)[place])}"
            likely = _in_order(who, point, arrange, world, lambda other: look(other)[place], actual[place])  # noqa: B023
            what = f"{what} with its inputs {layout}"
            return Mismatch(what, actual[place], expected[place], gap, tolerance, likely) if gap > tolerance else None
    return None


def _is_misread(point: SampleCall, arrange: Arrange, look: ReadTensors, world: World) -> bool:
    """Whether an operation of PyTorch itself goes wrong, on any rank."""
    with MisreadMode() as mode:
        world.try_call(lambda: look(in_layout(point, arrange)))
    return any(world.exchange(bool(mode.found)))


def _roughness(point: SampleCall, look: ReadTensors, expected: list[torch.Tensor], world: World) -> float:
    """Return how far rounding alone moves the values: if rows are equal, it may decide which one is the largest."""
    eps = max(epsilon(expected), torch.finfo(torch.float32).eps)  # it may work in single precision inside
    others = perturbed(point, world, eps, tries=4, constants=True)
    moved = [world.try_call(lambda other: look(other.run()), other) for other in others]
    return max(math.inf if each is None else worst_error(each, expected)[0] for each in moved)


def _in_order(
    who: str,
    point: SampleCall,
    arrange: Arrange,
    world: World,
    look: Callable[[Run], torch.Tensor],
    actual: torch.Tensor,
) -> str:
    """Name the cause if reading every input's memory in order gives the actual values, in whatever order."""
    misread = read_in_order(point, arrange)
    if world.size > 1 or misread is None:  # a call more on one rank would wait for the others
        return ""
    right, mistaken = look(point.run()), look(misread.run())
    shuffled = in_order(arrange(right)) if right.shape == actual.shape else mistaken
    told = any(torch.allclose(actual, other) for other in (mistaken, shuffled) if actual.shape == other.shape)
    return f"{who} assumes contiguous memory" if told else ""


def _coarsest(tensors: list[torch.Tensor]) -> torch.dtype:
    eps = epsilon(tensors)
    return next(
        (dtype for dtype in (torch.float64, torch.float32, torch.float16) if torch.finfo(dtype).eps >= eps),
        torch.bfloat16,
    )


@clause("Function.backward.gradient")
def test_gradient_of_nothing(probe: Probe) -> None:
    """With an empty first dimension no gradient is NaN; if the result is empty too, all derivatives are zero.

    Where forward itself meets a NaN on the way, such as the mean of nothing, PyTorch's own gradients are NaN too.
    """
    world, sample = probe.world, repeatable(probe.sample, probe.world)
    refused = "it accepts no sample that is empty along the first dimension"
    empty = without_rows(sample, world)
    with UndefinedMode() as mode:
        run = probe.unless_refused(refused, lambda: empty.run() if empty else None)
    need(not any(world.exchange(bool(mode.found))), refused)
    need(all(world.exchange(all(bool(y.detach().isfinite().all()) for y in run.outputs))), refused)
    cotangents = run.cotangents(world)
    gradients = probe.unless_refused(refused, lambda: run.filled(run.gradients(cotangents)))
    nothing = all(output.numel() == 0 for output in run.outputs)
    undefined = _declared_undefined(run, cotangents)
    for at, gradient in zip(run.leaves, gradients, strict=True):
        if gradient.numel() == 0 or at in undefined:
            continue
        name = f"gradient of {sample.name(at)} empty along the first dimension"
        expect.that(bool(gradient.isfinite().all()), name, gradient, "finite numbers")
        # A declared gradient may be anything here: one that adds a loss of its own is no derivative of the result.
        right = not nothing or sample.subject.gradient_kind != "numeric" or bool((gradient == 0).all())
        expect.that(right, name, gradient, "zeros: the result is empty, and no loss depends on it")


def _declared_undefined(run: Run, cotangents: Sequence[torch.Tensor]) -> set[int]:
    """The arguments for whose gradient a declared formula itself gives no numbers, such as the mean of no rows."""
    if run.sample.subject.gradient_kind != "declared":
        return set()
    try:
        declared = declared_gradients(run, cotangents)
    except Exception:  # a formula need not be made for nothing
        return set()
    return {at for at, value in declared.items() if not bool(value.isfinite().all())}


@clause("Function.backward.any-input")
@cases(
    kind=[
        "contiguous",
        "transposed in memory",
        "sliced out of wider memory",
        "expanded along the first dimension",
        "empty along the first dimension",
        "one along the first dimension",
        "over a hundred along the first dimension",
    ]
)
def test_backward_takes_what_forward_takes(probe: Probe, kind: str) -> None:
    """Backward raises no error for a sample in another layout, or with more, fewer or no rows, that forward accepts.

    If neither one row less nor half of the rows are accepted, their number has a meaning, as in a square matrix.
    """
    world, arrange = probe.world, LAYOUTS.get(kind)
    need(world.size == 1 or kind == EMPTY or arrange, "checked on one rank only: sizes may depend on other ranks'")
    sample = with_layout_values(probe.sample, arrange) if arrange else probe.sample
    refused = f"it accepts no sample that is {kind}, or every sample is so already"
    probe.unless_refused(refused, _taken, sample, arrange, world)  # which other clauses report
    run = probe.unless_refused(refused, _derived, sample, kind, world)
    need(all(world.exchange(bool(run.outputs))), refused)
    with expect.no_error(f"gradients of {sample.label}, {kind}, which forward accepts", "gradients"):
        try:
            _differentiate(run, world)
        except Exception:
            need(kind != EMPTY or not _is_tied(sample, world), refused)
            raise


def _is_tied(sample: SampleCall, world: World) -> bool:
    """Whether neither one row less nor half of the rows can be gone back through, if there are as many.

    With one row in each input this is unknown.

    On one rank only: if ranks exchange rows, unequal parts may end their processes.
    """
    if world.size > 1:
        return False
    lengths = [value.shape[0] for value in sample.values if isinstance(value, torch.Tensor) and value.dim()]
    if _rows(sample) == 1 and lengths.count(1) > 1:
        return True  # one of them may be a single row for all those of another
    tried = [world.try_call(_with_fewer_rows, sample, world, half) for half in (False, True)]
    found = [fewer for fewer in tried if fewer]
    if not found:  # with fewer it would mean something else
        return _rows(sample) > 1
    return not any(world.try_call(_taken, fewer, None, world) is not None for fewer in found)


def _with_fewer_rows(sample: SampleCall, world: World, half: bool) -> SampleCall | None:
    rows = _rows(sample)
    return without_rows(sample, world, rows - rows // 2 if half else 1)


def _rows(sample: SampleCall) -> int:
    return int(next((sample.values[at].shape[0] for at in sample.active if sample.values[at].dim()), 0))


def _differentiate(run: Run, world: World) -> None:
    run.gradients(run.cotangents(world))


def _derived(sample: SampleCall, kind: str, world: World) -> Run | None:
    """The call of a derived sample; None if nothing about the sample is changed on any rank."""
    if kind in LAYOUTS:
        return in_layout(sample, LAYOUTS[kind]) if any(world.exchange(changes(sample, LAYOUTS[kind]))) else None
    if kind == EMPTY:
        empty = without_rows(sample, world)
        return empty.run() if empty else None
    other = world.try_call(resized, sample, kind)
    if other is None or (kind in GROWN and not world.try_call(lambda: is_read(sample, other) or None)):
        return None
    return other.run()
