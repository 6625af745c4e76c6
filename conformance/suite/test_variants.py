"""The gradient of samples derived from the given ones: other layouts, empty along the first dimension."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from conformance.kit import (
    Deviation,
    NotApplicable,
    Observed,
    Probe,
    Run,
    SampleCall,
    World,
    cases,
    clause,
    expect,
    need,
)
from conformance.kit.judged import expect_same_gradients
from conformance.kit.modes import UndefinedMode
from conformance.kit.numerics.formula import declared_gradients
from conformance.kit.variations.axis import Pick, Variation
from conformance.kit.variations.layouts import (
    LAYOUTS,
    Arrange,
    MisreadMode,
    arranged,
    changes,
    in_layout,
    in_order,
    read_in_order,
    with_layout_values,
    writes_into_shared,
)
from conformance.kit.variations.sizes import GROWN, is_read, resized
from conformance.kit.variations.variants import confirmed_nearby, draws_by_any_seed, repeatable, without_rows

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
    wrong = confirmed_nearby(start, world, lambda point: _by_layout(point, world, layout))
    if wrong:
        raise wrong


def _taken(sample: SampleCall, arrange: Arrange | None, world: World) -> bool | None:
    """Differentiate a sample; None if it changes what a layout would expand."""
    run = sample.run()
    _differentiate(run, world)
    return None if arrange and writes_into_shared(run, arrange) else True


def _by_layout(point: SampleCall, world: World, layout: str) -> Deviation | None:
    """How results or gradients change, beyond rounding, if all inputs lie otherwise in memory."""
    arrange = LAYOUTS[layout]
    there = Probe(world, with_layout_values(point, arrange))
    names = there.sample.names
    everywhere = Variation(tuple(Pick("layout", names[at], layout, arrange, at) for at in arranged(there.sample)))
    actual, right = world.try_call(there.go, everywhere), world.try_call(there.equal_call, everywhere)
    if actual is None or right is None:
        return None  # an error is no wrong gradient; Function.backward.any-input speaks of it
    wrong = None
    try:
        expect_same_gradients(there, everywhere, actual, right)
    except Deviation as found:
        wrong = found
    except NotApplicable:
        pass
    is_wrong = any(world.exchange(wrong is not None))
    if not is_wrong or _is_misread(there.sample, arrange, world) or draws_by_any_seed(there.sample, world):
        return None
    if wrong:
        wrong.what = f"{wrong.what}, with its inputs {layout}"
        misread = read_in_order(there.sample, arrange) if world.size == 1 else None
        # A call more on one rank would wait for the others.
        mistaken = world.try_call(lambda: Probe(world, misread).plain) if misread else None
        wrong.likely = _in_order(actual, right, mistaken, arrange) if mistaken else ""
    return wrong


def _is_misread(point: SampleCall, arrange: Arrange, world: World) -> bool:
    """Whether an operation of PyTorch itself goes wrong, on any rank."""
    with MisreadMode() as mode:
        world.try_call(lambda: _differentiate(in_layout(point, arrange), world))
    return any(world.exchange(bool(mode.found)))


def _in_order(actual: Observed, right: Observed, mistaken: Observed, arrange: Arrange) -> str:
    """Name the cause if reading every input's memory in order gives the actual values, in whatever order."""
    for who, of in (("forward", lambda call: call.results), ("backward", lambda call: call.gradients.values())):
        for one, expected, misread in zip(of(actual), of(right), of(mistaken), strict=False):
            others = [other for other in (misread, in_order(arrange(expected))) if other.shape == one.shape]
            if not torch.allclose(one, expected) and any(torch.allclose(one, other) for other in others):
                return f"{who} assumes contiguous memory"
    return ""


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
    """Whether an argument is the number of rows, or neither one row less nor half of them can be gone back through.

    With one row in each input this is unknown.

    Fewer rows are tried on one rank only: if ranks exchange rows, unequal parts may end their processes.
    """
    rows = _rows(sample)
    if any(type(value) is int and value == rows for value in sample.values):
        return True  # a caller tells the rows that there are
    if world.size > 1:
        return False
    lengths = [value.shape[0] for value in sample.values if isinstance(value, torch.Tensor) and value.dim()]
    if rows == 1 and lengths.count(1) > 1:
        return True  # one of them may be a single row for all those of another
    tried = [world.try_call(without_rows, sample, world, count) for count in (1, rows - rows // 2)]
    found = [fewer for fewer in tried if fewer]
    if not found:  # with fewer it would mean something else
        return rows > 1
    return not any(world.try_call(_taken, fewer, None, world) is not None for fewer in found)


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
