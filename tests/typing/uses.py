"""Right and wrong uses of the public face, for a type checker alone: nothing here is ever run.

Each wrong line has the error that mypy must find there; an ignore that silences nothing is an error itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, assert_type

import torch

from conformance import GROUP, ConformanceError, Subject, check


class Scale(torch.autograd.Function):
    """Some Function."""


def call(function: Any, x: torch.Tensor) -> torch.Tensor:
    """An adapter."""
    return x


def inputs() -> Iterator[tuple[Any, ...]]:
    """Samples."""
    yield x, 2.0


def slope(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...]:
    """A formula."""
    return (2 * grads[0], None)


x = torch.ones(3, requires_grad=True)

report = check(Scale, (x, 2.0))
check(torch.sin, (x,), (x.double(),), strict=True, only="Function.backward.count", timeout=5)
check("package.module:Scale", (x, [x, {"x": x}]), spec="Function", call=call)
check("package.module:subject")
check(Scale, (x,), formula=slope)
check(Scale, (x,), ranks=None, only=None)
check(Scale, (x,), gradient="declared", formula=lambda args, grads: grads)
check(Scale, (x, GROUP), spec="Collective", types="P -> I", ranks=(2, 3))
check(Scale, spec="AllGatherGradAutograd", ranks=2)
check(Scale, spec="GradFactor", call=call, ranks=range(1, 4))
check(Scale, (x,), spec="SpecOfAnotherPackage")
check(Subject(Scale, inputs=inputs), (x,), types=None, ranks=[1, 2])

Subject("package.module:Scale", inputs="package.module:inputs")
Subject(Scale, spec="AllGather", result="stacked", dim=1, call=call)
Subject(Scale, spec="MakeViewlessTensor", helpers={"make_viewless_tensor": torch.sin})
Subject(torch.sin, inputs=[(x,)], gradient="declared", formula=slope, name="sine")

assert_type(report.subjects[0].verdict, Literal["fails", "incomplete", "deviates", "conforms"])
assert_type(report.subjects[0].clauses[0].level, Literal["must", "should", "may", "quality"])
assert_type(
    report.subjects[0].clauses[0].tests[0].outcome,
    Literal["crash", "timeout", "error", "fail", "skip", "not-applicable", "pass"],
)
try:
    check(Scale, (x,))
except ConformanceError as error:
    error.report.to_json()
    error.subject  # type: ignore[attr-defined]

check(5, (x,))  # type: ignore[call-overload]
check(Scale)  # type: ignore[call-overload]
check(Scale, x)  # type: ignore[call-overload]
check(Scale, (x,), types="V -> R")  # type: ignore[call-overload]
check(Scale, (x,), spec=3)  # type: ignore[call-overload]
check(Scale, (x,), ranks="2")  # type: ignore[arg-type]
check(Scale, (x,), gradient="declared")  # type: ignore[call-overload]
check(Scale, (x,), gradient="none")  # type: ignore[call-overload]
check(Scale, (x,), formula=3)  # type: ignore[call-overload]
check(Scale, (x,), call=call, only=3)  # type: ignore[call-overload]
check(Scale, (x,), rank=2)  # type: ignore[call-overload]

Subject(5)  # type: ignore[arg-type]
Subject(Scale, inputs=5)  # type: ignore[arg-type]
Subject(Scale, inputs=[x])  # type: ignore[list-item]
Subject(Scale, result="split")  # type: ignore[arg-type]
Subject(Scale, gradient="none")  # type: ignore[arg-type]
Subject(Scale, spec="AllGather", dim="last")  # type: ignore[arg-type]

report.subjects[0].verdict == "passes"  # type: ignore[comparison-overlap]
report.subjects[0].verdicts  # type: ignore[attr-defined]
