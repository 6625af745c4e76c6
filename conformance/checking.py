"""``check``: the suite from within one's own tests, in the calling process where one rank is enough."""

from __future__ import annotations

import difflib
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from conformance import catalogue, clauses
from conformance.handing import in_process, payload
from conformance.options import MOST_RANKS
from conformance.outcome import TestOutcome
from conformance.plan import Item, Named, plan
from conformance.pool import Pool, Settings
from conformance.pristine import Template
from conformance.report.model import Report
from conformance.session import suite_version
from conformance.subject import BadSubject, Subject, check_subject, load
from conformance.verdict import Planned, SubjectInfo, judge
from conformance.world import World


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
    strict: bool = False,
    only: str = "",
    timeout: float = 30.0,
) -> Report:
    """Hold a Function against the contract, or against a spec, and raise unless it conforms.

    With one rank and no spec that gathers, everything runs in the calling process: quick, and in your debugger.
    Otherwise rank processes are started; a Function that crashes or hangs there leaves the caller alone. What is at
    the top of a module is imported on the ranks; a class or lambda made inside a function is sent to them.

    One example is enough: the suite itself calls with every combination of inputs that need a gradient, with
    incoming gradients of every layout, with batches along every dimension for vmap, and in double precision where a
    derivative is measured. Strides, dtypes and an empty dimension are derived from each sample; pass other shapes
    yourself.

    Args:
        function: a Function class, a callable, or a :class:`~conformance.Subject`.
        cases: tuples of arguments to call it with, for spec ``Function``. Tensors that require grad are
            differentiated, all of them where none does; float64 makes the numerical checks sharp. Tensors may be
            nested in tuples, lists and dicts. The suite works on copies of tensors and NumPy arrays.
        spec: the spec it claims to keep; ``"Function"`` is the contract alone.
        ranks: world sizes for clauses that need several ranks.
        call: ``call(function, *args)``, for a signature other than the documented one.
        gradient: ``"declared"`` where the gradient is no true derivative on purpose; needs ``formula``.
        formula: ``formula(args, grads)`` gives the expected gradient of every argument.
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
    if not (isinstance(timeout, int | float) and 0 < timeout <= 86_400):
        raise ValueError(f"timeout={timeout!r}: give a number of seconds above 0 and at most 86400")
    try:
        subject = _subject(function, cases, spec, call, gradient, formula)
    except BadSubject as error:
        raise ValueError(str(error)) from None
    label = subject.label
    on_ranks = max(sizes) > 1 or subject.gathers
    named = Named("", subject.spec, None, label, payload(subject) if on_ranks else "")
    registry = clauses.registry()
    items = [item for item in plan(catalogue.suite(), registry, [named], sizes) if item.subject]
    chosen = [item for item in items if only in {"", item.test.clause, item.test.function}]
    if not chosen:
        raise ValueError(_nothing_chosen(only, items))
    outcomes = _on_ranks(chosen, timeout) if on_ranks else in_process(chosen, subject)
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


def _sizes(ranks: int | Sequence[int]) -> tuple[int, ...]:
    """World sizes, each one checked."""
    sizes = tuple(ranks) if isinstance(ranks, list | tuple | range | set) else (ranks,)
    if not sizes or not all(type(size) is int and 1 <= size <= MOST_RANKS for size in sizes):
        raise ValueError(f"ranks={ranks!r}: give a world size of 1 or more, or several as in (2, 3)")
    return tuple(sorted(set(sizes)))


def _nothing_chosen(only: str, items: Sequence[Item]) -> str:
    known = sorted({name for item in items for name in (item.test.clause, item.test.function)})
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
) -> Subject:
    subject = function if isinstance(function, Subject) else Subject(function)
    if isinstance(subject.target, str):
        subject = replace(subject, target=_loaded(subject.target), name=subject.label)
    given: dict[str, Any] = {"spec": spec, "call": call, "gradient": gradient, "formula": formula, "inputs": cases}
    subject = check_subject(replace(subject, **{name: value for name, value in given.items() if value}))
    if not callable(subject.inputs) or not subject.gathers:
        subject.samples(World())  # inputs that cannot be used are said at once; a gather's may need their ranks
    return subject


def _loaded(reference: str) -> Any:
    try:
        return load(reference)
    except BadSubject:
        raise
    except Exception as error:
        raise BadSubject(f"importing {reference!r} raises {type(error).__name__}: {error}") from error


def _on_ranks(items: Sequence[Item], timeout: float) -> list[TestOutcome]:
    """Run items on rank processes."""
    template = Template()
    pool = Pool(template, Settings(timeout=timeout, path=tuple(filter(None, sys.path))))
    pool.look_ahead(items)
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
