"""``check``: the suite from within one's own tests, in the calling process where one rank is enough."""

from __future__ import annotations

import difflib
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from conformance.core import catalog, clauses
from conformance.core.errors import UsageError
from conformance.core.options import LONGEST_TIMEOUT, MOST_RANKS, RunOptions
from conformance.core.outcomes import TestOutcome
from conformance.core.plan import PlannedTest, SubjectRef, plan
from conformance.kit.subject import Subject, check_subject, load
from conformance.kit.world import World
from conformance.ranks.pickled import payload
from conformance.report.model import Report
from conformance.run.in_process import in_process
from conformance.run.session import Session, report_on


class ConformanceError(AssertionError):
    """A Function does not conform; the text lists every broken clause, ``report`` holds all there is to know."""

    def __init__(self, text: str, report: Report) -> None:
        """Keep the report beside the text."""
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
    types: str | None = None,
    strict: bool = False,
    only: str = "",
    timeout: float = 30.0,
) -> Report:
    """Check a Function against the contract, or against a spec, and raise unless it conforms.

    With one rank and no spec that gathers, everything runs in the calling process: quick, and in your debugger.
    Otherwise rank processes are started; a Function that crashes or hangs there leaves the caller alone. What is at
    the top of a module is imported on the ranks; a class or lambda made inside a function is sent to them.

    One example is enough: the suite itself calls with every combination of inputs that need a gradient, with
    incoming gradients of every layout, with batches along every dimension for vmap, and in double precision where a
    derivative is measured. Strides, dtypes and an empty dimension are derived from each sample; pass other shapes
    yourself.

    Args:
        function: a Function class, a callable, or a :class:`~conformance.Subject`.
        cases: tuples of arguments to call it with, for specs ``Function`` and ``Collective``;
            :data:`~conformance.GROUP` stands for the process group. Tensors that require grad are
            differentiated, all of them where none does; float64 makes the numerical checks sharp. Tensors may be
            nested in tuples, lists and dicts. The suite works on copies of tensors and NumPy arrays.
        spec: the spec it claims to keep; ``"Function"`` is the contract alone.
        ranks: world sizes for clauses that need several ranks.
        call: ``call(function, *args)``, for a signature other than the documented one.
        gradient: ``"declared"`` where the gradient is no true derivative on purpose; needs ``formula``.
        formula: ``formula(args, grads)`` gives the expected gradient of every argument.
        types: the SPMD types of its tensors, such as ``"P -> I"``, for spec ``Collective``.
        strict: raise for broken should and quality clauses too, which otherwise only show in the report.
        only: run the tests of this clause alone; the name of a test will do as well.
        timeout: deadline of one test on one rank, in seconds, where rank processes are started.

    Returns:
        The report, with a verdict for every clause.

    Raises:
        ConformanceError: some clause is broken; its text tells of each, and its ``report`` holds everything.
        ValueError: the arguments make no subject that can be tested; one line says why.

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
    sizes = _sizes(ranks)
    if not (isinstance(timeout, int | float) and 0 < timeout <= LONGEST_TIMEOUT):
        raise UsageError(f"timeout={timeout!r}: give a number of seconds above 0 and at most 86400")
    subject = _subject(function, cases, spec, call, gradient, formula, types)
    label = subject.label
    on_ranks = max(sizes) > 1 or subject.gathers
    named = SubjectRef("", subject.spec, None, label, payload(subject) if on_ranks else "")
    registry = clauses.registry()
    tests = [test for test in plan(catalog.suite(), registry, [named], sizes) if test.subject]
    chosen = [test for test in tests if only in {"", test.test.clause, test.test.function}]
    if not chosen:
        raise UsageError(_nothing_chosen(only, tests))
    outcomes = _on_ranks(chosen, named, sizes, timeout) if on_ranks else list(in_process(chosen, subject))
    report = report_on(
        tests,
        outcomes,
        [named],
        _environment(sizes),
        selected={test.nodeid for test in chosen},
        engine=False,
    )
    _raise_unless_good(report, strict, whole=not only)
    return report


def _sizes(ranks: int | Sequence[int]) -> tuple[int, ...]:
    """World sizes, each one checked."""
    sizes = tuple(ranks) if isinstance(ranks, list | tuple | range | set) else (ranks,)
    if not sizes or not all(type(size) is int and 1 <= size <= MOST_RANKS for size in sizes):
        raise UsageError(f"ranks={ranks!r}: give a world size of 1 or more, or several as in (2, 3)")
    return tuple(sorted(set(sizes)))


def _nothing_chosen(only: str, tests: Sequence[PlannedTest]) -> str:
    known = sorted({name for test in tests for name in (test.test.clause, test.test.function)})
    near = difflib.get_close_matches(only, known, 2) if isinstance(only, str) else []
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "; `conformance list` shows all clauses"
    return f"only={only!r}: no clause or test of that name concerns this subject{hint}"


def _subject(
    function: Any,
    cases: tuple[tuple[Any, ...], ...],
    spec: str | None,
    call: Callable[..., Any] | None,
    gradient: str,
    formula: Callable[..., Any] | None,
    types: str | None,
) -> Subject:
    subject = function if isinstance(function, Subject) else Subject(function)
    if isinstance(subject.target, str):
        subject = replace(subject, target=_loaded(subject.target), name=subject.label)
    given: dict[str, Any] = {
        "spec": spec,
        "call": call,
        "gradient": gradient,
        "formula": formula,
        "inputs": cases,
        "types": types,
    }
    subject = check_subject(replace(subject, **{name: value for name, value in given.items() if value}))
    if not callable(subject.inputs) or not subject.gathers:
        subject.samples(World())  # inputs that cannot be used are said at once; a gather's may need their ranks
    return subject


def _loaded(reference: str) -> Any:
    try:
        return load(reference)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"importing {reference!r} raises {type(error).__name__}: {error}") from error


def _on_ranks(
    tests: Sequence[PlannedTest], subject: SubjectRef, sizes: tuple[int, ...], timeout: float
) -> list[TestOutcome]:
    """Run tests on rank processes, which look for modules where the caller does."""
    options = RunOptions(ranks=sizes, timeout=timeout)
    with Session(options, subjects=[subject], path=[*filter(None, sys.path)]) as session:
        return list(session.run(tests))


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
    bad = {"fails", "incomplete"} if whole else {"fails"}
    (result,) = report.subjects
    if result.verdict not in bad and not (strict and any(clause.weighs for clause in result.clauses)):
        return
    from io import StringIO

    from conformance.report.sheet import terminal
    from conformance.report.terminal import show

    text = StringIO()
    show(report, terminal(text, width=100))
    raise ConformanceError(f"{result.subject} {result.verdict}\n{text.getvalue()}", report)
