"""Each threshold changed tenfold, both ways: who notices first, among right gradients and wrong ones.

A right gradient notices if it is accused, or no longer judged finely enough to pass; a wrong one if it is not accused;
a class of the kill matrix if a test of it ends otherwise.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from conformance.kit import tolerances
from conformance.kit.deviations import Deviation, NotApplicable, Skipped
from conformance.kit.judgement import Judgement
from conformance.kit.loading import resolve
from conformance.kit.oracles import formula, reference
from conformance.kit.oracles.sample import judged_inputs, said_of
from conformance.kit.process.restoration import restored
from conformance.kit.sample_calls import active_samples, differentiated
from conformance.kit.seeds import seed
from conformance.kit.subject import Subject
from conformance.kit.variations.lower_precision import LowerPrecision, expect_as_in_double
from conformance.kit.world import World
from tests.proof import noticing, resolution
from tests.proof.noticing import Change, Line, noticed, of_contract
from tests.proof.on_device import run_on
from tests.proof.resolution import times
from tests.samples import of_shapes

#: Facts of the arithmetic, which are not chosen; and Student's t for two degrees of freedom, which shows in one run of
#: a thousand.
FACTS = {"SINGLE", "HALF", "BFLOAT", "SIGMAS_OF_FEW", "COARSER", "BETWEEN_JUMPS"}
#: How many calls are made, and when it is worth while; a change of them costs time, not verdicts.
EFFORT = {"LINEAR", "DRAWS", "DRAWS_IN_HALF", "LONGEST", "HALVINGS", "FINE", "ENOUGH", "ENOUGH_ROUNDINGS"}
EFFORT |= {"LONG_STEPS", "SHORT_STEPS", "OTHER_STEP"}
#: gradcheck's own tolerances, and what a run asks for.
GIVEN = {"GRADCHECK_ATOL", "GRADCHECK_RTOL", "RESOLUTION", "RESOLUTION_IN_HALF"}
#: What tests on a device and among several ranks use, which are not asked here.
ELSEWHERE = {"ON_DEVICE", "ON_DEVICE_IN_HALF", "AS_IN_DOUBLE", "SUMS_TO_ZERO"}
#: Correct implementations that a threshold was set for, and planted bugs that one must not hide.
RIGHT = (
    "function_ways:Ties",
    "function_ways:Step",
    "precision:SolverWithResidue",
    "solvers:BisectsWithinATolerance",
    "precision:BiasBeforeNormalization",
    "precision:AveragesInSinglePrecision",
    "single_inside:BackwardOfMatmulInSingle",
    "low_precision:ProductInBfloat16",
    "low_precision:ClampedProduct",
    "low_precision:FaintArgument",
)
WRONG = (
    "low_precision:ProductDoubledInBfloat16",
    "low_precision:ProductAFewPercentOff",
    "low_precision:SoftmaxWithoutItsSum",
    "low_precision:SlopeOfTanhInDouble",
    "backward:TwiceTheGradient",
)
KERNELS = ("matmul", "softmax")
#: The tests that a change is held against take so long at most (seconds).
MOST = 40.0
TABLE = Path(tolerances.__file__)
#: What reads thresholds.
ROOMS = (TABLE.parent, TABLE.parents[1] / "suite")


@dataclass(frozen=True)
class Witness:
    """A gradient, right or wrong, and how it is judged: accused, passed, or neither."""

    name: str
    is_right: bool | None
    judge: Callable[[], str]

    @property
    def holds(self) -> bool:
        """Whether it is judged as it should be; what is neither right nor wrong is left to other clauses."""
        return self.judge() == {True: "passed", False: "accused", None: "unclear"}[self.is_right]


def witnesses() -> list[Witness]:
    """All of them."""
    found = [Witness(name, True, partial(_of_subject, f"tests.correct.{name}")) for name in RIGHT]
    found += [Witness(name, False, partial(_of_subject, f"tests.planted.{name}")) for name in WRONG]
    for kind in (kind for kind in resolution.KINDS if kind.name in KERNELS):
        for dtype, goal in zip(resolution.DTYPES, kind.goals, strict=True):
            name = f"{kind.name} in {dtype}"
            found.append(Witness(name, True, partial(_of_kernel, kind, dtype, times(1.0))))
            found.append(
                Witness(f"{name}, off by {3 * goal:g}", False, partial(_of_kernel, kind, dtype, times(1 + 3 * goal)))
            )
    kinds = {kind.name: kind for kind in resolution.KINDS}
    for name in ("layer norm", "gated unit"):  # an error along the gradient is another one in each draw
        for shape, wrong in resolution.SHAPES.items():
            kernel = partial(_of_kernel, kinds[name], "float64", wrong)
            found.append(Witness(f"{name} in float64, {shape}", False, kernel))
    for name, error in (("matmul", 5e-14), ("softmax", 5e-11)):
        kernel = partial(_of_kernel, kinds[name], "float64", times(1 + error))
        found.append(Witness(f"{name} in float64, off by {error:g}", False, kernel))
    for lower, slight in ((torch.float32, 1e-3), (torch.float16, 0.05), (torch.bfloat16, 0.3)):
        for factor, is_right in ((1.0, True), (1 + slight, False)):
            product = partial(_of_product, lower, factor)
            found.append(Witness(f"product times {factor:g} in {lower} alone", is_right, product))
    for times_right, digits in ((1, 1e-9), (2, 2e-6)):
        turns = itertools.cycle((digits, -digits))
        kernel = partial(_of_kernel, kinds["matmul"], "float64", lambda right: right * (times_right + next(turns)))  # noqa: B023
        found.append(Witness(f"matmul times {times_right} in float64, other digits in each call", None, kernel))
    ones, eps = torch.ones(9, dtype=torch.bfloat16), float(torch.finfo(torch.bfloat16).eps)
    small = ones.double()
    found += [
        Witness(
            "declared in bfloat16, off by four roundings",
            True,
            lambda: _of(formula.judged_by_formula(ones * 1.03, ones)),
        ),
        Witness(
            "declared in bfloat16, off by a fifth", False, lambda: _of(formula.judged_by_formula(ones * 1.2, ones))
        ),
        Witness("declared, off by 1e-13", False, lambda: _of(formula.judged_by_formula(small * (1 + 1e-13), small))),
        Witness("declared, off by 1e-14", True, lambda: _of(formula.judged_by_formula(small * (1 + 4e-15), small))),
        Witness("reference, five times eager's loss", True, lambda: _of_reference(0.05, 0.01, eps)),
        Witness("reference, thirty times eager's loss", False, lambda: _of_reference(0.3, 0.01, eps)),
        Witness("reference in double, off by 1e-9", True, lambda: _of_reference(1e-9, 0.0, 2e-16)),
        Witness("reference in double, off by 1e-7", False, lambda: _of_reference(1e-7, 0.0, 2e-16)),
        Witness("reference, one element fifteen times", True, lambda: _of_element(15, eps)),
        Witness("reference, one element forty times", False, lambda: _of_element(40, eps)),
    ]
    return found


def _of(judgement: Judgement) -> str:
    return "accused" if judgement.verdict == "differs" else "passed"


def _of_reference(error: float, eager: float, eps: float) -> str:
    right = torch.linspace(1, 2, 50, dtype=torch.float64)
    return _of(reference.judged_by_reference(right * (1 + error), right, right * (1 + eager), eps))


def _of_element(times: int, eps: float) -> str:
    right = torch.ones(10_000, dtype=torch.float64)
    eager, actual = right + 0.01, right.clone()
    actual[3] += 0.01 * times
    return _of(reference.judged_by_reference(actual, right, eager, eps))


def _of_product(dtype: torch.dtype, factor: float) -> str:
    """Judge a matrix product whose gradient in one dtype is the right one times a factor."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, ...]:
            x, w = ctx.saved_tensors
            times = factor if grad.dtype == dtype else 1.0
            return times * (grad @ w.mT), times * (x.mT @ grad)

    subject, world = Subject(Product, inputs=of_shapes((6, 7), (7, 5))), World()
    with restored():
        seed(0)
        (sample,) = active_samples(subject, world)
        try:
            expect_as_in_double(sample, world, LowerPrecision.of(dtype), "")
        except Deviation:
            return "accused"
        except NotApplicable:
            return "unclear"
    return "passed"


def _of_subject(name: str) -> str:
    owner = f"{name}.inputs" if hasattr(_loaded(name), "inputs") else f"{name.partition(':')[0]}:inputs"
    subject, world = resolve(name, "Function", None if hasattr(_loaded(name), "target") else owner, None), World()
    with restored():
        seed(0)
        judged = [one for sample, _ in differentiated(subject, world) for one in judged_inputs(sample, world)]
    if any(one.judgement.verdict == "differs" for one in judged):
        return "accused"
    try:
        said_of(judged)
    except Skipped:
        return "unclear"
    return "passed"


def _loaded(name: str) -> object:
    import importlib

    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _of_kernel(kind: resolution.Kind, dtype: str, wrong: resolution.Wrong) -> str:
    try:
        judged = resolution.judged(kind, resolution.SMALL, dtype, wrong)
    except Deviation:
        return "accused"
    limit = tolerances.RESOLUTION_IN_HALF if dtype in {"float16", "bfloat16"} else tolerances.RESOLUTION
    return "accused" if judged.verdict == "differs" else "passed" if judged.is_finer_than(limit) else "unclear"


@dataclass(frozen=True)
class Row:
    """Who notices first that a threshold is ten times as large, or a tenth; empty if nobody does."""

    name: str
    larger: str
    smaller: str

    @property
    def is_noticed(self) -> bool:
        """Whether anybody does."""
        return bool(self.larger or self.smaller)


def rows(only: str, said: Callable[[object], None]) -> list[Row]:
    """Change every threshold, both ways, and ask the witnesses, then planted bugs and right classes of the matrix.

    Raises:
        ValueError: a witness is not judged as it should be with the thresholds as they are.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    every = witnesses()
    if lost := [one.name for one in every if not one.holds]:
        raise ValueError(f"not judged as they should be, before anything is changed: {', '.join(lost)}")
    chosen = FACTS | EFFORT | GIVEN | ELSEWHERE
    names = [name for name in vars(tolerances) if name.isupper() and name not in chosen and only in name]
    lines = _readers()
    changes = [Change(lines[name], partial(_times, name, factor)) for name in names for factor in (10.0, 0.1)]
    found = noticed(changes, [*(noticing.Witness(one.name, one.judge) for one in every), *of_contract()], said, MOST)
    return [
        Row(*row) for row in zip(names, (one.by for one in found[::2]), (one.by for one in found[1::2]), strict=True)
    ]


def page(found: Sequence[Row]) -> str:
    """The table of the site: each threshold, and who notices that it is larger or smaller."""
    rows = [
        f"| `{row.name}` | {getattr(tolerances, row.name):g} | {_told(row.larger)} | {_told(row.smaller)} |"
        for row in found
    ]
    return "\n".join([run_on("cpu"), "", "| threshold | is | ten times | a tenth |", "|---|---|---|---|", *rows]) + "\n"


def _told(witness: str) -> str:
    """The class of a test's id, and what else notices by its name."""
    named = re.search(r"\[tests\.([\w.]+:\w+)-", witness)
    return f"`{named[1]}`" if named else witness or "nobody"


def _times(name: str, factor: float) -> None:
    """Change a threshold; what counts stays a whole number, and one at least."""
    before = getattr(tolerances, name)
    setattr(tolerances, name, type(before)(max(1, before * factor)) if isinstance(before, int) else before * factor)


def _readers() -> dict[str, frozenset[Line]]:
    """The lines of kit and suite that read each threshold."""
    found: dict[str, set[Line]] = defaultdict(set)
    for file in (file for room in ROOMS for file in room.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tolerances":
                found[node.attr].add((str(file), node.lineno))
            elif isinstance(node, ast.Name) and file == TABLE:
                found[node.id].add((str(file), node.lineno))
    return defaultdict(frozenset, {name: frozenset(lines) for name, lines in found.items()})
