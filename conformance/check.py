"""``check``: the suite from within one's own tests, in the calling process where one rank is enough."""

from __future__ import annotations

import importlib
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from conformance import catalogue, clauses
from conformance.joining import joined
from conformance.outcome import Deviation, NotApplicable, RankOutcome, Skipped, TestOutcome, clipped
from conformance.plan import Item, Named, plan
from conformance.pool import Pool, Settings
from conformance.pristine import Template
from conformance.report.model import Report
from conformance.session import suite_version
from conformance.subject import BadSubject, Subject, check_subject
from conformance.verdict import Planned, SubjectInfo, judge


class ConformanceError(AssertionError):
    """A Function does not conform; the text lists every broken clause, ``report`` holds all there is to know."""

    def __init__(self, text: str, report: Report) -> None:
        super().__init__(text)
        self.report = report


def check(
    function: Any,
    *cases: tuple[Any, ...],
    spec: str | None = None,
    ranks: int | Sequence[int] = 1,
    call: Callable[..., Any] | None = None,
    gradient: str = "",
    formula: Callable[..., Any] | None = None,
    strict: bool = False,
    only: str = "",
    timeout: float = 30.0,
) -> Report:
    """Hold a Function against the contract, or against a spec, and raise unless it conforms.

    With one rank and no spec that gathers, everything runs in the calling process: quick, and in your debugger.
    Otherwise rank processes are started, which import the Function by its name.

    Args:
        function: a Function class, a callable, or a :class:`~conformance.Subject`.
        cases: tuples of arguments to call it with, for spec ``Function``. Tensors that require grad are
            differentiated; float64 makes the numerical checks sharp. The caller's tensors are not touched.
        spec: the spec it claims to keep; ``"Function"`` is the contract alone.
        ranks: world sizes for clauses that need several ranks.
        call: ``call(function, *args)``, for a signature other than the documented one.
        gradient: ``"declared"`` where the gradient is no true derivative on purpose; needs ``formula``.
        formula: ``formula(args, grads)`` gives the expected gradient of every argument.
        strict: raise for broken should and quality clauses too, which otherwise only show in the report.
        only: run the tests of this clause alone.
        timeout: deadline of one test on one rank, in seconds, where rank processes are started.

    Returns:
        The report, with a verdict for every clause.

    Raises:
        ConformanceError: some clause is broken.
        ValueError: the arguments make no subject that can be tested.

    >>> import torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> check(Double, (torch.randn(3, dtype=torch.float64, requires_grad=True),)).subjects[0].verdict
    'conforms'
    """
    sizes = (ranks,) if isinstance(ranks, int) else tuple(ranks)
    try:
        subject = _subject(function, cases, spec, call, gradient, formula)
    except BadSubject as error:
        raise ValueError(str(error)) from None
    if not sizes or any(size < 1 for size in sizes):
        raise ValueError(f"ranks={ranks!r}: give world sizes of 1 or more")
    label = subject.label
    on_ranks = max(sizes) > 1 or subject.gathers
    named = Named("", subject.spec, None, label, _payload(subject) if on_ranks else "")
    registry = clauses.registry()
    items = [item for item in plan(catalogue.suite(), registry, [named], sizes) if item.subject]
    chosen = [item for item in items if only in {"", item.test.clause, item.test.function}]
    outcomes = _on_ranks(chosen, timeout) if on_ranks else [_here(item, subject) for item in chosen]
    report = judge(
        outcomes,
        [Planned(item.nodeid, item.test.clause, item.label, item.spec, item.size) for item in items],
        [SubjectInfo(label, named.spec)],
        registry,
        _environment(sizes),
        suite={"version": suite_version(), "clauses_sha256": clauses.digest()},
        engine=False,
        missing=f"not selected by only={only!r}" if only else "not run",
    )
    _raise_unless_good(report, strict, whole=not only)
    return report


def _subject(
    function: Any,
    cases: tuple[tuple[Any, ...], ...],
    spec: str | None,
    call: Callable[..., Any] | None,
    gradient: str,
    formula: Callable[..., Any] | None,
) -> Subject:
    from conformance.subject import load

    subject = function if isinstance(function, Subject) else Subject(function)
    if isinstance(subject.target, str):
        subject = replace(subject, target=load(subject.target), name=subject.label)
    given: dict[str, Any] = {"spec": spec, "call": call, "gradient": gradient, "formula": formula, "inputs": cases}
    subject = replace(subject, **{name: value for name, value in given.items() if value})
    return check_subject(subject)


def _here(item: Item, subject: Subject) -> TestOutcome:
    """Run one item in this process."""
    from conformance import footprint
    from conformance.world import World

    start = time.perf_counter()
    offered = {"subject": subject, "world": World(), **dict(item.case)}
    outcome, message, likely = "pass", "", ""
    try:
        body = getattr(importlib.import_module(item.test.module), item.test.function)
        with footprint.restored(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the suite provokes warnings; the caller's filters are for the caller
            body(**{name: offered[name] for name in item.test.arguments})
    except NotApplicable as error:
        outcome, message = "not-applicable", str(error)
    except Skipped as error:
        outcome, message = "skip", str(error)
    except Deviation as error:
        outcome, message, likely = "fail", str(error), error.likely
    except Exception as error:
        from conformance.rank import explain

        outcome, message = "error", explain(error)
    found = RankOutcome(0, outcome, clipped(message), likely)
    return joined(item, [found], time.perf_counter() - start)


def _payload(subject: Subject) -> str:
    """The subject as text that a rank can make it from again; classes of a module go by their name."""
    import base64

    import cloudpickle

    try:
        return base64.b64encode(cloudpickle.dumps(subject)).decode()
    except Exception as error:
        raise ValueError(
            f"{subject.label} cannot be handed to rank processes: {type(error).__name__}: {error}; "
            "define it at the top of a module"
        ) from error


def _on_ranks(items: Sequence[Item], timeout: float) -> list[TestOutcome]:
    """Run items on rank processes."""
    template = Template()
    pool = Pool(template, Settings(timeout=timeout, path=tuple(filter(None, sys.path))))
    try:
        return [pool.run(item) for item in items]
    finally:
        pool.close()
        template.close()


def _environment(sizes: tuple[int, ...]) -> dict[str, Any]:
    import torch

    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": sys.platform,
        "backend": "gloo",
        "device": "cpu",
        "ranks": list(sizes),
    }


def _raise_unless_good(report: Report, strict: bool, whole: bool) -> None:
    bad = {"fails"} | ({"incomplete"} if whole else set()) | ({"deviates"} if strict else set())
    (result,) = report.subjects
    if result.verdict not in bad:
        return
    from io import StringIO

    from conformance.report.sheet import terminal
    from conformance.report.terminal import show

    text = StringIO()
    show(report, terminal(text, width=100))
    raise ConformanceError(f"{result.subject} {result.verdict}\n{text.getvalue()}", report)
