"""What authors forget first, a return or a method's right name, is called by its name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from conformance import ConformanceError, Subject, check
from conformance.core import catalog

X = torch.linspace(0.3, 1.7, 3, dtype=torch.float64)


class Double(torch.autograd.Function):
    """No mistake yet: each class below changes one member."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class ForwardWithoutReturn(Double):
    @staticmethod
    def forward(ctx, x):
        x * 2


class BackwardWithoutReturn(Double):
    @staticmethod
    def backward(ctx, grad):
        grad * 2


class WithoutBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def forward_again(ctx, x):
        return x * 2


class Mistyped(WithoutBackward):
    @staticmethod
    def backwards(ctx, grad):
        return grad * 2


class Refusing(WithoutBackward):
    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError("not yet")


class ChangedAndReturned(Double):
    @staticmethod
    def forward(ctx, x):
        x *= 2
        return x


class Joins(torch.autograd.Function):
    """A gather that returns one tensor, as many do."""

    @staticmethod
    def forward(ctx, x):
        entries = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(entries, x)
        return torch.cat(entries)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad.chunk(dist.get_world_size())[dist.get_rank()]


def broken(function, *samples, **options):
    with pytest.raises(ConformanceError) as caught:
        check(function, *samples, **options)
    (subject,) = caught.value.report.subjects
    return subject, " ".join(str(caught.value).split())


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (ForwardWithoutReturn, "returns None, so backward never runs; perhaps forward lacks"),
        (Mistyped, "defines neither backward nor vjp; is its backwards meant to be backward?"),
    ],
)
def test_where_no_gradient_can_be_judged_for_a_slip_the_verdict_is_open(function, said):
    subject, text = broken(function, (X,))
    assert subject.verdict == "incomplete"
    assert said in text


class Counts(torch.autograd.Function):
    """Has results without a gradient."""

    @staticmethod
    def forward(ctx, x):
        return (x > 1).sum()

    @staticmethod
    def backward(ctx, grad):
        return grad.expand(3)


class CountsWholeNumbers(Counts):
    """Its backward is there because PyTorch asks for one."""

    @staticmethod
    def backward(ctx, grad):
        return None


def test_where_no_sample_has_anything_to_differentiate_the_gradient_is_not_judged():
    subject, text = broken(Double, (torch.arange(3),))
    assert subject.verdict == "incomplete"
    assert "no sample has a floating-point or complex tensor to differentiate, and the class has a backward" in text


def test_a_backward_that_returns_none_alone_waits_for_no_such_sample():
    assert check(CountsWholeNumbers, (torch.arange(3),)).subjects[0].verdict == "conforms"


def test_where_no_sample_reaches_a_backward_a_warning_says_so():
    with pytest.warns(UserWarning, match="no gradient was judged: no output of any sample requires grad"):
        check(Counts, (X,))


def test_a_backward_without_its_return_is_one_thing_to_tell():
    subject, text = broken(BackwardWithoutReturn, (X,), compile=True)
    assert [clause.id for clause in subject.clauses if clause.broken] == ["Function.backward.gradient"]
    assert "looks like backward lacks its return" in text


class ReturnsGrad(Double):
    """Runs a backward pass inside, and returns what it leaves on a tensor that is no leaf: nothing."""

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            x = torch.ones_like(grad).requires_grad_() * 2
            x.backward(grad)
        return x.grad


def test_a_backward_that_returns_what_turned_out_none_has_its_return():
    _, text = broken(ReturnsGrad, (X,))
    assert "looks like backward returns None, as .grad is of what is not a leaf" in " ".join(text.split())


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (WithoutBackward, "the class defines neither backward nor vjp"),
        (Refusing, "its backward does nothing but raise NotImplementedError"),
    ],
)
def test_a_class_without_backward_conforms_and_says_that_no_gradient_was_judged(function, why):
    (subject,) = check(function, (X,)).subjects
    reasons = {clause.id: clause.reason for clause in subject.clauses}
    assert reasons["Function.backward.repeatable"] == why


def test_an_input_that_is_changed_and_returned_is_laid_to_no_alias():
    subject, text = broken(ChangedAndReturned, (X,))
    assert [clause.id for clause in subject.clauses if clause.broken] == ["Function.mark_dirty.complete"]
    assert "looks like" not in text


#: Judged of a gather below, where each test that breaks costs a world of its own: the clauses that begin like these.
OF_THE_FORM = ("Function.apply.", "AllGatherGradAutograd.forward.", "AllGatherGradAutograd.backward.unused")
OF_THE_CALL = ("Function.apply.", "Function.backward.count", "AllGather.forward.")


@pytest.fixture
def few(request, monkeypatch):
    """Every test of some clauses, in its first case alone."""
    found = [replace(test, cases=test.cases[:1]) for test in catalog.suite() if test.clause.startswith(request.param)]
    monkeypatch.setattr(catalog, "suite", lambda *_: tuple(found))


@pytest.mark.parametrize("few", [OF_THE_FORM], indirect=True, ids=["few"])
def test_a_gather_of_another_form_is_told_how_to_say_so(few):
    """What a tensor without dimensions is to a gather that joins is the other thing to tell."""
    subject, text = broken(Joins, spec="AllGatherGradAutograd", ranks=2)
    accused = {clause.id for clause in subject.clauses if clause.broken and clause.level == "must"}
    assert accused == {"AllGatherGradAutograd.forward.every-rank", "AllGatherGradAutograd.forward.meta"}
    assert (
        'looks like the entries joined in one tensor: if that is intended, say it with Subject(..., result="joined"'
        in text
    )
    assert "/conformance/" not in text


@pytest.mark.parametrize("few", [OF_THE_CALL], indirect=True, ids=["few"])
def test_a_gather_with_other_arguments_is_told_how_to_call_it(few):
    subject, text = broken(Joins, spec="AllGather", ranks=2)
    accused = [clause.id for clause in subject.clauses if clause.broken and clause.level == "must"]
    assert accused == ["Function.apply.accepts"]
    assert "looks like it takes other arguments than AllGather; if that is intended, make the call in call=" in text


def test_said_so_the_gather_conforms():
    check(Subject(Joins, spec="AllGatherGradAutograd", result="joined"), ranks=2)


class AddsText(torch.autograd.Function):
    """Takes what GradFactor takes, and raises a TypeError of its own."""

    @staticmethod
    def forward(ctx, x, f):
        return x + "1"

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def test_a_type_error_inside_forward_is_no_matter_of_arguments():
    _, text = broken(AddsText, spec="GradFactor")
    assert "takes other arguments" not in text
    assert 'return x + "1"' in text


class RefusesFives(Double):
    """Takes every width but one."""

    @staticmethod
    def forward(ctx, x):
        if x.numel() == 5:
            raise ValueError("a bad width")
        return x * 2


@pytest.mark.parametrize("few", ["Function.apply.accepts"], indirect=True, ids=["few"])
def test_the_sample_that_is_refused_is_told_where_others_are_taken(few):
    several = [(X.clone().requires_grad_(),), (torch.ones(5, requires_grad=True),)]
    with pytest.raises(ConformanceError) as caught:
        check(Subject(RefusesFives, spec="Function", inputs=lambda: several))
    assert "sample 1 fails: (tensor[5] float32)" in str(caught.value)
