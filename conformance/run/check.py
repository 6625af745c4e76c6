"""``check``: the suite inside your own tests; with one rank it runs in the calling process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from typing import Any, Literal, overload

from conformance.core.errors import UsageError
from conformance.kit.backward import returns_gradients
from conformance.kit.declared import Formula
from conformance.kit.specs import GradientKind
from conformance.kit.subject import Call, Subject, Target
from conformance.report.model import Report
from conformance.run import arguments
from conformance.run.judging import judged

__all__ = ["ConformanceError", "check"]

Ranks = int | Collection[int]


class ConformanceError(AssertionError):
    """A Function does not conform. The text lists every broken clause; ``report`` has the whole report.

    >>> import torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad
    >>> try:
    ...     check(Double, (torch.ones(3, dtype=torch.float64),))
    ... except ConformanceError as error:
    ...     error.report.subjects[0].verdict
    'fails'
    """

    def __init__(self, text: str, report: Report) -> None:
        """Keep the report beside the text."""
        super().__init__(text)
        self.report = report


@overload  # a Subject has fields for the other arguments; a name may lead to a Subject
def check(
    function: Subject | str,
    /,
    *samples: tuple[Any, ...],
    spec: str | None = None,
    ranks: Ranks | None = None,
    simulated: bool = False,
    schedule: int | None = None,
    call: Call | None = None,
    gradient: GradientKind | None = None,
    formula: Formula | None = None,
    reference: Callable[..., Any] | None = None,
    types: str | None = None,
    strict: bool = False,
    only: str | None = None,
    timeout: float | None = None,
    compile: bool = False,
) -> Report: ...
@overload  # the contract, whose gradient is the derivative
def check(
    function: Callable[..., Any],
    sample: tuple[Any, ...],
    /,
    *samples: tuple[Any, ...],
    spec: Literal["Function"] | None = None,
    ranks: Ranks | None = None,
    call: Call | None = None,
    gradient: Literal["numeric"] | None = None,
    reference: Callable[..., Any] | None = None,
    strict: bool = False,
    only: str | None = None,
    timeout: float | None = None,
    compile: bool = False,
) -> Report: ...
@overload  # the contract, whose gradient is what a formula says
def check(
    function: Callable[..., Any],
    sample: tuple[Any, ...],
    /,
    *samples: tuple[Any, ...],
    spec: Literal["Function"] | None = None,
    ranks: Ranks | None = None,
    call: Call | None = None,
    gradient: Literal["declared"] | None = None,
    formula: Formula,
    strict: bool = False,
    only: str | None = None,
    timeout: float | None = None,
    compile: bool = False,
) -> Report: ...
@overload
def check(
    function: Callable[..., Any],
    sample: tuple[Any, ...],
    /,
    *samples: tuple[Any, ...],
    spec: Literal["Collective"],
    types: str | None = None,
    ranks: Ranks | None = None,
    simulated: bool = False,
    schedule: int | None = None,
    call: Call | None = None,
    strict: bool = False,
    only: str | None = None,
    timeout: float | None = None,
    compile: bool = False,
) -> Report: ...
@overload  # any other spec: it may bring samples of its own
def check(
    function: Callable[..., Any],
    /,
    *samples: tuple[Any, ...],
    spec: str,
    ranks: Ranks | None = None,
    simulated: bool = False,
    schedule: int | None = None,
    call: Call | None = None,
    strict: bool = False,
    only: str | None = None,
    timeout: float | None = None,
    compile: bool = False,
) -> Report: ...


def check(
    function: Subject | Target,
    /,
    *samples: tuple[Any, ...],
    spec: str | None = None,
    ranks: Ranks | None = None,
    simulated: bool = False,
    schedule: int | None = None,
    call: Call | None = None,
    gradient: GradientKind | None = None,
    formula: Formula | None = None,
    reference: Callable[..., Any] | None = None,
    types: str | None = None,
    strict: bool = False,
    only: str | None = None,
    timeout: float | None = None,
    compile: bool = False,
    **_unknown: object,
) -> Report:
    """Check a Function against the contract, or against a spec, and raise unless it conforms.

    With one rank and no spec that gathers, or with ``simulated``, everything runs in the calling process: quick, and in
    your debugger. Otherwise rank processes are started, and a Function that crashes or hangs there does not affect the
    caller. Ranks import what is defined at the top of a module; a class or lambda made inside a function is sent to
    them. They are forked from a process that has imported torch; it waits for the next call, and ends with the calling
    process.

    What a Function changes in the calling process is restored after each test: default dtype, default device, grad
    mode, anomaly mode, deterministic algorithms, function and dispatch modes, functorch levels, forward-mode level,
    autocast, saved-tensor hooks, switches of torch, matmul precision, print options, NumPy's handling of errors,
    handling of denormal numbers, number of threads, working directory, environment variables, signal handlers, signal
    mask, timers, umask, garbage collector, tracing, recursion limit, standard streams, warning filters, and the state
    of random number generators. Not restored are resource limits, what is patched or imported, threads and processes
    that it started, process groups, files, memory, and a stream that it closed: if that matters, use ``conformance
    run``, which replaces the process.

    One example is enough: the suite itself calls the Function with every combination of inputs that need a gradient,
    with incoming gradients of every layout, with batches along every dimension for vmap, and in double precision to
    measure derivatives. Strides, dtypes and an empty dimension are derived from each sample; pass other shapes
    yourself.

    Args:
        function: a Function class or its ``apply``, a callable, or a :class:`~conformance.Subject`.
        samples: tuples of arguments to call it with, for specs ``Function`` and ``Collective``;
            :data:`~conformance.GROUP` stands for the process group. Tensors that require grad are
            differentiated, or all of them if none does; float64 makes the numerical checks sharp. Tensors may be
            nested in tuples, lists and dicts. The suite works on copies of tensors and NumPy arrays.
        spec: the spec it claims to keep; ``"Function"`` is the contract alone.
        ranks: world sizes for clauses that need several ranks; by default, one rank.
        simulated: run ranks as threads of this process, one at a time: a breakpoint stops all of them, and a hang is
            proved at once. They share everything that a process has once. A rank that loops by itself never ends.
        schedule: the seed for the order in which they run; fixed by default.
        call: ``call(function, *args)``, for a signature other than the documented one.
        gradient: ``"declared"`` if the gradient is deliberately not the derivative; needs ``formula``.
        formula: ``formula(args, grads)`` returns the expected gradient of every argument; a parameter named ``forward``
            receives what forward returned (``forward.results``) and drew (``with forward.random():``).
        reference: the same function written plainly in PyTorch; results and gradients are compared with its own in
            double precision. A kernel of half precision alone needs one, if differences cannot measure its gradient.
        types: the SPMD types of its tensors, such as ``"P -> I"``, for spec ``Collective``.
        strict: raise for broken should and quality clauses too, which otherwise are only in the report.
        only: run only the tests of this clause, named by its id, or the test of this name.
        timeout: deadline of one test on one rank, in seconds, if rank processes are started; by default, 30.
        compile: test under torch.compile too. It takes seconds and resets the compiler; ``only`` can select it too.

    Returns:
        The report, with a verdict for every clause. If a class has a backward and no sample has a tensor to
        differentiate, a warning says so.

    Raises:
        ConformanceError: the Function fails or is incomplete, or with ``strict`` deviates; its text lists every
            broken clause, and its ``report`` is the whole report.
        ValueError: the arguments cannot be tested, or a spec needs several ranks and ``ranks`` was not given; one line
            says what would be right.

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
    __tracebackhide__ = True  # pytest shows only the test's own line and the message
    given = {"spec": spec, "call": call, "gradient": gradient, "formula": formula, "types": types, "inputs": samples}
    given["reference"] = reference
    try:
        arguments.expect_known(_unknown, check.__kwdefaults__ or ())
        seconds = arguments.seconds(timeout, simulated)
        sizes = None if ranks is None else arguments.world_sizes(ranks)
        found = arguments.subject(function, **given)
        backend = arguments.backend(simulated, schedule)
        report, bad = judged(found, sizes, seconds, only or "", compile, backend)
    except UsageError as error:
        error.__traceback__ = None  # these frames are the suite's; the caller's are in the cause
        raise error  # noqa: TRY201 a bare raise would leave out the call
    _raise_unless_good(report, strict, bad)
    if (why := report.subjects[0].no_gradient) and (found.function is None or returns_gradients(found.function)):
        warnings.warn(f"{found.label}: no gradient was judged: {why}", stacklevel=2)
    return report


def _raise_unless_good(report: Report, strict: bool, bad: Collection[str]) -> None:
    __tracebackhide__ = True
    (result,) = report.subjects
    if result.verdict not in bad and not (strict and any(clause.affects_verdict for clause in result.clauses)):
        return
    from io import StringIO

    from conformance.report.sheet import terminal
    from conformance.report.terminal import show

    text = StringIO()
    show(report, terminal(text, width=100))
    raise ConformanceError(f"{result.subject} {result.verdict}\n{text.getvalue()}", report)
