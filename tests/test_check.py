"""``check`` from within one's own tests: what it tells, and that the calling process notices nothing else."""

from __future__ import annotations

import json
import random
import re
import sys
import traceback
import warnings
from dataclasses import dataclass

import numpy
import pytest
import torch

from conformance import GROUP, ConformanceError, Subject, check
from conformance.report.model import Report
from tests.correct.precision import SolverWithResidue
from tests.planted._square import SquareWithJvp
from tests.planted.backward import UndeclaredSurrogate

GATHER = "AllGatherGradAutograd"
GRADIENT = "Function.backward.gradient"


class Square(SquareWithJvp):
    """Right in every respect, with rules for every transform."""

    generate_vmap_rule = True


class Called(torch.autograd.Function):
    """Made for instances, as Functions once were."""

    def forward(self, x):
        return x.clone()


def called() -> Called:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says what the suite is to say as well
        return Called()


class WrongTwice(torch.autograd.Function):
    """A wrong factor, and an incoming gradient changed in place."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.mul_(6)


def example(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.ones(shape or (3,), dtype=dtype).cumsum(0).requires_grad_()


SQUARE = Subject(Square, inputs=lambda: [(example(),)])


def test_a_function_that_keeps_the_contract_passes():
    report = check(Square, (example(),))
    assert report.subjects[0].verdict == "conforms"


def test_the_report_of_a_check_is_the_same_as_plain_data():
    data = check(Square, (example(),)).to_json()
    assert Report.from_json(json.loads(json.dumps(data))).to_json() == data


def test_an_error_names_every_broken_clause_in_the_order_of_a_failure():
    with pytest.raises(ConformanceError) as caught:
        check(WrongTwice, (example(),), strict=True)
    text = str(caught.value)
    broken = [clause.id for clause in caught.value.report.subjects[0].clauses if clause.broken]
    assert {GRADIENT, "Function.backward.grads-untouched"} <= set(broken)
    assert all(name in text for name in broken)
    parts = [
        GRADIENT,
        "The value that backward returns for an input is the gradient",
        "rank 0 of 1",
        "actual:",
        "expected:",
        "looks like the right value times 3",
        f"check(WrongTwice, ..., only='{GRADIENT}')",
        f"#clause-{GRADIENT}",
    ]
    at = 0
    for part in parts:
        at = text.find(part, at)
        assert at >= 0, f"{part!r} does not come after what is told before it"


def test_the_command_that_reproduces_a_failure_runs_that_clause_alone():
    with pytest.raises(ConformanceError) as caught:
        check(WrongTwice, (example(),), only=GRADIENT)
    results = caught.value.report.subjects[0].clauses
    assert [clause.id for clause in results if clause.verdict != "skipped"] == [GRADIENT]
    results = check(Square, (example(),), only=GRADIENT).subjects[0].clauses
    assert [clause.id for clause in results if clause.verdict == "pass"] == [GRADIENT]


def test_broken_quality_clauses_raise_only_when_strict():
    class Careless(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad.mul_(2)

    assert check(Careless, (example(),)).subjects[0].verdict == "deviates"
    with pytest.raises(ConformanceError, match=r"test_broken.*Careless deviates"):
        check(Careless, (example(),), strict=True)
    with pytest.raises(ConformanceError):
        check(Careless, (example(),), strict=True, only="Function.backward.grads-untouched")
    results = check(Careless, (example(),), strict=True, only=GRADIENT).subjects[0].clauses
    assert [clause.id for clause in results if clause.verdict == "pass"] == [GRADIENT]


def test_the_process_is_left_as_it_was():
    class Rude(Square):
        @staticmethod
        def forward(x):
            torch.set_default_dtype(torch.float16)
            torch.set_grad_enabled(False)
            torch.manual_seed(3)
            random.seed(3)
            numpy.random.seed(3)
            warnings.simplefilter("ignore")
            return x * x

    x, array = example(4, 3).detach().t(), numpy.arange(3.0)
    before, version, strides = x.clone(), x._version, x.stride()

    def state() -> list[object]:
        return [
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.get_rng_state().tolist(),
            random.getstate(),
            numpy.random.get_state()[1].tolist(),
            list(warnings.filters),
            array.tolist(),
        ]

    def spoil(function, x, array):
        array *= 0
        return function.apply(x)

    earlier = state()
    with pytest.raises(ConformanceError):
        check(Rude, (x, array), call=spoil, strict=True)
    assert state() == earlier
    assert torch.equal(x, before)
    assert (x._version, x.stride(), x.requires_grad, x.grad) == (version, strides, False, None)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_callers_grad_mode_makes_no_difference(mode):
    with mode():
        assert check(Square, (torch.ones(3, dtype=torch.float64),)).subjects[0].verdict == "conforms"
        with pytest.raises(ConformanceError, match="looks like the right value times 3"):
            check(WrongTwice, (example(),))


def test_a_function_that_exits_does_not_end_the_caller():
    class Exits(Square):
        @staticmethod
        def backward(ctx, grad):
            sys.exit(0)

    with pytest.raises(ConformanceError, match="SystemExit: 0"):
        check(Exits, (example(),))


def test_an_interrupt_reaches_the_caller():
    class Interrupted(Square):
        @staticmethod
        def backward(ctx, grad):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(Interrupted, (example(),))


def test_a_declared_gradient_is_judged_by_its_formula():
    point = (torch.tensor([0.2, 1.3, -2.4], dtype=torch.float64, requires_grad=True),)
    with pytest.raises(ConformanceError, match="the surrogate gradient of a step function"):
        check(UndeclaredSurrogate, point)
    declared = check(UndeclaredSurrogate, point, gradient="declared", formula=lambda args, grads: grads)
    assert declared.subjects[0].verdict == "conforms"
    with pytest.raises(ConformanceError, match=GRADIENT):
        check(UndeclaredSurrogate, point, formula=lambda args, grads: (2 * grads[0],))


def test_a_subject_may_be_given_by_name():
    subject = Subject("tests.test_check:Square", inputs=[(example(),)])
    assert check(subject).subjects[0].subject == "tests.test_check:Square"
    assert check("tests.test_check:Square", (example(),)).subjects[0].verdict == "conforms"
    assert check("tests.test_check:SQUARE").subjects[0].verdict == "conforms"


@dataclass
class _Normal:
    mean: torch.Tensor
    scale: float


def test_a_sample_without_elements_judges_no_gradient():
    empty = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(ConformanceError, match=r"incomplete\n(.|\n)*no tensor that is differentiated\s+has an element"):
        check(Square, (empty,))
    assert check(Square, (empty,), (example(),)).subjects[0].verdict == "conforms"


def test_a_gradient_of_a_tensor_in_an_object_is_said_to_be_unjudged():
    def apply(function, normal, x):
        return function.apply(x) * normal.scale + function.apply(normal.mean)

    mean = torch.ones(3, dtype=torch.float64)
    check(Square, (_Normal(mean, 2.0), example()), call=apply)
    said = "gradient of input 0.mean of sample 0 not judged: held by an object; pass tensors in a tuple, list or dict"
    for kind in ({}, {"formula": lambda args, grads: (None, 4 * args[1] * grads[0])}):
        with pytest.raises(ConformanceError) as raised:
            check(Square, (_Normal(mean.requires_grad_(), 2.0), example()), call=apply, **kind)
        assert raised.value.report.subjects[0].verdict == "incomplete"
        assert said in " ".join(str(raised.value).split())


BAD = {
    "no function": (lambda: check(5, (example(),)), "is an int, not a Function class"),
    "another class": (lambda: check(dict, (example(),)), "no subclass of torch.autograd.Function"),
    "no inputs": (lambda: check(Square), "needs sample inputs"),
    "a bare tensor": (lambda: check(Square, example()), "yield a Tensor, not a tuple"),
    "a list": (lambda: check(Square, [example(), 2.0]), r"yield a list, .* write \(x, 2.0\), not \[x, 2.0\]"),
    "a dict": (lambda: check(Square, {"x": example()}), r"yield a dict, .* in their order, \(x, 2.0\)"),
    "a generator that is at its end": (
        lambda: check(Subject(Square, inputs=iter(()))),
        "yields nothing, or is used up; give the callable that makes it",
    ),
    "forward of a class": (lambda: check(Square.forward, (example(),)), "is forward of a Function, .* give the class"),
    "arguments without a tuple": (lambda: check(Square, example(), 2.0), r"each sample is one tuple: \(x, 2.0\)"),
    "a tuple that is returned": (
        lambda: check(Subject(Square, inputs=lambda: (example(), 2.0))),
        r"yield \(x, 2.0\) instead of returning it",
    ),
    "inputs that raise": (lambda: check(Subject(Square, inputs=lambda: [1 / 0])), "raise ZeroDivisionError"),
    "inputs that are none": (lambda: check(Subject(Square, inputs=5)), "are an int; give a callable"),
    "an unknown spec": (
        lambda: check(Square, (1.0,), spec="Gather"),
        r"no spec named 'Gather'; did you mean AllGather\? there are",
    ),
    "an unknown gradient": (lambda: check(Square, (1.0,), gradient="none"), "not 'none'"),
    "no formula": (lambda: check(Square, (1.0,), gradient="declared"), "needs formula="),
    "a formula that is none": (lambda: check(Square, (1.0,), formula=3), "formula= is an int, not a function"),
    "a call that is none": (lambda: check(Square, (1.0,), call=3), "call= is an int, not a function"),
    "no rank": (lambda: check(Square, (1.0,), ranks=0), "ranks=0: give"),
    "no worlds": (lambda: check(Square, (1.0,), ranks=()), r"ranks=\(\): give"),
    "ranks as text": (lambda: check(Square, (1.0,), ranks="2"), "ranks='2': give"),
    "ranks not given": (lambda: check(Square, spec="AllGather"), r"AllGather needs several ranks: pass ranks=\(2, 3\)"),
    "samples for a spec that has its own": (
        lambda: check(Square, (1.0,), spec="GradFactor"),
        "spec GradFactor has samples of its own; leave out yours, or give them to spec Function",
    ),
    "no time": (lambda: check(Square, (1.0,), timeout=0), "timeout=0: give"),
    "an unknown clause": (
        lambda: check(Square, (1.0,), only="Function.backward.counts"),
        "did you mean 'Function.backward.count'",
    ),
    "a part of an id": (
        lambda: check(Square, (1.0,), only="Function.backward"),
        "did you mean 'Function.backward.accepts' or",
    ),
    "two clauses": (
        lambda: check(Square, (1.0,), only=["Function.backward.count"]),
        "give the name of one clause",
    ),
    "specs in a list": (
        lambda: check(Square, (1.0,), spec=["Function"]),
        "spec= is a list, not a str",
    ),
    "an instance": (lambda: check(called(), (1.0,)), "is an instance of Called, .* give the class"),
    "a module's class": (lambda: check(torch.nn.Linear, (1.0,)), "give an instance of it"),
    "a number for a name": (lambda: check(Subject(Square, inputs=[(1.0,)], name=3)), "name= is an int, not a str"),
    "a name for a number": (lambda: check(Subject(Square, inputs=[(1.0,)], dim="0")), "dim= is a str, not an int"),
    "nothing but a shape": (lambda: check(Square, (torch.ones(2, device="meta"),)), "give one that has values"),
    "a group": (lambda: check(Square, (example(), GROUP)), "GROUP among the arguments is for spec Collective"),
    "no such module": (lambda: check("nowhere:Square", (1.0,)), "no module named 'nowhere'"),
    "no such attribute": (lambda: check("tests.test_check:Sqare", (1.0,)), "has no attribute 'Sqare'"),
    "a misspelled keyword": (
        lambda: check(Square, (1.0,), refernce=torch.square),
        r"check takes no refernce=; did you mean reference=\?",
    ),
    "samples by a keyword": (
        lambda: check(Square, inputs=[(1.0,)]),
        r"check takes no inputs=; samples go by position, such as check\(function, \(x, 2.0\)\), and by name spec=, ",
    ),
    "no reference": (lambda: check("Square", (1.0,)), "is not of the form module:attribute"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_told_on_one_line(case):
    call, said = BAD[case]
    with pytest.raises(ValueError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_bad_arguments_show_no_line_of_the_suite():
    for call, _ in BAD.values():
        with pytest.raises(ValueError) as caught:
            call()
        *_, own, last = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert (own, last) == ("<lambda>", "check")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        (lambda grads: grads, r"formula\(args, grads\) raises TypeError: .*takes 1 positional"),
        (lambda args, grads: 1 / 0, r"raises ZeroDivisionError: division by zero \(at test_check.py"),
        (lambda args, grads: (grads[0].sum(),), r"gives tensor\[0-d\] .* for input 0 of sample 0, which has the shape"),
        (lambda args, grads: (2.0,), "gives 2.0 for input 0 of sample 0, which has the shape"),
    ],
)
def test_a_formula_that_is_none_accuses_nobody(formula, said):
    with pytest.raises(ConformanceError) as caught:
        check(Square, (example(),), formula=formula)
    (subject,) = caught.value.report.subjects
    assert subject.verdict == "incomplete"
    reasons = {clause.id: clause.reason for clause in subject.clauses if clause.verdict == "skipped"}
    assert re.search(said, reasons[GRADIENT])


def test_a_call_that_takes_other_arguments_is_told_without_lines_of_the_suite():
    with pytest.raises(ConformanceError, match="looks like the parameters of call= must be the class") as caught:
        check(Square, (example(),), call=lambda x: Square.apply(x))
    assert "File " not in str(caught.value)


def test_the_fixture_is_check(conformance_check):
    assert conformance_check is check


def test_what_was_asked_for_alone_and_cannot_run_is_no_success():
    with pytest.raises(ConformanceError, match=r"incomplete.*\n(.|\n)*needs 2 ranks or more"):
        check("spec_impl.ksuit:AllGatherGradAutograd", spec=GATHER, only=f"{GATHER}.backward.sum", ranks=1)


def test_ranks_that_cannot_meet_are_told(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nope0")
    with pytest.raises(ConformanceError, match=r"incomplete.*\n(.|\n)*GLOO_SOCKET_IFNAME='nope0'"):
        check("spec_impl.ksuit:AllGatherGradAutograd", spec=GATHER, only=f"{GATHER}.backward.sum", ranks=2)


def test_no_escape_codes_in_an_error():
    with pytest.raises(ConformanceError) as caught:
        check(WrongTwice, (example(),))
    assert not re.search("\x1b", str(caught.value))


@pytest.mark.parametrize(("asked", "verdict"), [({}, "not-applicable"), ({"compile": True}, "pass")])
def test_a_function_is_compiled_where_that_is_asked_for(asked, verdict):
    report = check(Square, (torch.ones(2, 3, dtype=torch.float64, requires_grad=True),), **asked)
    found = report.subjects[0].clause("Function.compile.agrees")
    assert found.verdict == verdict
    assert report.subjects[0].verdict == "conforms"


class ByBytes(torch.autograd.Function):
    """Asks for what the compiler cannot trace once a shape has varied."""

    @staticmethod
    def forward(ctx, x):
        return x * 2 if x.nbytes else x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_pass_says_with_what_the_compiled_call_raises():
    def said(function):
        report = check(function, (torch.ones(2, 3, dtype=torch.float64, requires_grad=True),), compile=True)
        found = report.subjects[0].clause("Function.compile.agrees")
        assert found.verdict == "pass"
        return found.reason

    assert said(ByBytes) == "compiled, the call raises with sample 0 made longer"
    assert said(Square) == ""


class OnlyForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def derivative(ctx, grad):
        return grad * 2


def test_nothing_about_backward_passes_where_there_is_none():
    (subject,) = check(OnlyForward, (torch.ones(3, dtype=torch.float64, requires_grad=True),)).subjects
    about = {clause.id: clause.verdict for clause in subject.clauses if ".backward." in clause.id}
    assert set(about.values()) == {"not-applicable"}, about


class Linear(torch.autograd.Function):
    """Takes a module and its weight, whose gradient it adds up itself."""

    @staticmethod
    def forward(ctx, layer, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.layer = layer
        return layer(x)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        ctx.layer.weight.grad = (0 if ctx.layer.weight.grad is None else ctx.layer.weight.grad) + grad.mT @ x
        return None, grad @ weight, None


def test_a_pass_says_which_gradients_it_leaves_open():
    def said(function, *args):
        report = check(function, args, only="Function.backward.gradient")
        (told,) = [clause.reason for clause in report.subjects[0].clauses if clause.verdict == "pass"]
        return told

    # No random numbers: of a few, rounding happens to leave enough for differences.
    x, bound = (torch.linspace(low, low + 0.4, 4, dtype=torch.float64).requires_grad_() for low in (0.5, 5.3))
    left_open = "gradient of input 1 of sample 0 not judged: it hardly affects the results"
    assert left_open in said(SolverWithResidue, x, bound)
    layer = torch.nn.Linear(4, 2, bias=False, dtype=torch.float64)
    told = said(Linear, layer, x.detach()[None].requires_grad_(), layer.weight)
    assert "gradient of input 2 of sample 0 not judged: it belongs to a module that is an argument too" in told
    seen = "a relative error of 1e-11 would have been detected (extrapolated differences, 109 calls)"
    assert said(Square, example()) == seen


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_check_that_takes_a_while_says_on_a_terminal_how_far_it_is(monkeypatch, capsys, is_terminal):
    monkeypatch.setattr("conformance.run.judging.QUIET", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    check(torch.sin, (torch.ones(2, dtype=torch.float64, requires_grad=True),), only="Function.forward.deterministic")
    assert ("nothing broken" in capsys.readouterr().err) is is_terminal


def test_a_sample_that_takes_long_is_said_to():
    x = torch.ones(5 * 10**6, dtype=torch.float64, requires_grad=True)
    with pytest.warns(UserWarning, match="a sample has 40 MB, and is called hundreds of times"):
        check(torch.sin, (x,), only="Function.apply.accepts")
