"""Which lines a failure shows: the author's own; where there are none, a few; never the way through the suite."""

from __future__ import annotations

import re
from functools import partial

import pytest
import torch

from conformance import ConformanceError, check
from conformance.kit.attempt import attempt, call_body
from conformance.kit.loading import load
from tests.planted.parameters import (
    CtxForgotten,
    CtxInBothForms,
    OneTangentForTwoInputs,
    SetupWithoutOutput,
    TangentsOfOutputsToo,
    VmapOfOneArgument,
    VmapWithoutInfo,
)

X = torch.ones(3, dtype=torch.float64).cumsum(0).requires_grad_()


class Scale(torch.autograd.Function):
    """Right with two arguments."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class WithoutCtx(torch.autograd.Function):
    """Its forward is that of the separate form, and there is no setup_context."""

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class WithoutForward(torch.autograd.Function):
    """It has none."""


class TakesOneOfTwo(torch.autograd.Function):
    """Two results, and a backward that takes one gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class WithoutItsOtherHalf(torch.autograd.Function):
    """Its backward is decorated for autocast, and its forward is not: PyTorch raises before backward begins."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        return grad * 2


def scaled(x, factor):
    return Scale.apply(x, factor)


def told(function, *args) -> str:
    with pytest.raises(ConformanceError) as caught:
        check(function, args)
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "args"),
    [(Scale, (X, 2.0, 3.0)), (Scale, ()), (WithoutForward, (X,)), (scaled, (X, 2.0, 3.0))],
)
def test_a_call_that_is_never_taken_is_one_thing_to_tell(function, args):
    text = told(function, *args)
    assert "cannot be called with its samples, so nothing could be judged" in " ".join(text.split())
    assert text.count("|   File") <= 2, text


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (WithoutCtx, "forward takes no ctx"),
        (CtxForgotten, "forward takes no ctx"),
        (CtxInBothForms, "forward takes ctx"),
        (SetupWithoutOutput, "the parameters of setup_context must be ctx, inputs and output"),
    ],
)
def test_parameters_that_are_not_those_of_pytorch_are_the_likely_cause(function, why):
    args = (X,) if function is WithoutCtx else (X, X + 1)
    text = " ".join(told(function, *args).split())
    assert f"looks like {why}" in text
    assert "1 broken clause" in text
    assert "|   File" not in text


def test_a_value_too_many_is_not_taken_for_a_forgotten_ctx():
    assert "looks like" not in told(Scale, X, 2.0, 3.0)


@pytest.mark.parametrize(
    ("function", "args", "why"),
    [
        (Scale, (X, 2.0, 3.0), "sample 0 is (tensor[3] float64, 2.0, 3.0); forward takes (x, factor) after ctx"),
        (Scale, (), "sample 0 is (); forward takes (x, factor) after ctx"),
        (scaled, (X, 2.0, 3.0), "sample 0 is (tensor[3] float64, 2.0, 3.0); scaled takes (x, factor)"),
    ],
)
def test_what_a_sample_has_is_shown_beside_what_forward_takes(function, args, why):
    assert why in " ".join(told(function, *args).replace("|", " ").split())


@pytest.mark.parametrize("function", [OneTangentForTwoInputs, TangentsOfOutputsToo, VmapWithoutInfo, VmapOfOneArgument])
def test_a_jvp_or_vmap_that_cannot_be_called_is_one_thing_to_tell(function):
    text = told(function, X, X + 1)
    assert "how many values it takes" in text
    assert "1 broken clause" in text
    assert "|   File" not in text, text


def test_a_backward_that_cannot_be_called_shows_no_way_there():
    text = told(TakesOneOfTwo, X)
    assert "backward() takes 2 positional arguments but 3 were given" in " ".join(text.replace("|", " ").split())
    assert "Function.backward.accepts" in text
    assert "|   File" not in text, text


def test_what_pytorch_raises_in_backward_is_told_without_the_way_there():
    text = told(WithoutItsOtherHalf, X)
    assert "has no attribute '_fwd_used_autocast'" in " ".join(text.replace("|", " ").split())
    assert text.count("|   File") <= 2, text


def test_a_module_that_python_cannot_read_shows_its_line(tmp_path, monkeypatch):
    (tmp_path / "unread_here.py").write_text("x = 1\ndef f(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    message = attempt(lambda: __import__("unread_here")).message
    assert message.splitlines()[0] == "SyntaxError: invalid syntax (unread_here.py, line 2)"
    assert "    def f(:" in message


def test_the_machinery_of_an_import_is_nobodys(tmp_path, monkeypatch):
    import importlib

    (tmp_path / "raising_here.py").write_text('raise ValueError("not today")\n')
    monkeypatch.syspath_prepend(tmp_path)
    message = attempt(lambda: importlib.import_module("raising_here")).message
    assert "_bootstrap" not in message
    assert "importlib/__init__" not in message
    assert message.endswith('raising_here.py", line 1, in <module>\n    raise ValueError("not today")')


def test_what_the_suite_itself_raises_shows_the_way_from_the_test_on(monkeypatch):
    monkeypatch.setattr("conformance.kit.calls.Run.of", lambda *args: {}["gone"])
    monkeypatch.setattr("conformance.kit.attempt.foreign", lambda file: True)
    message = told(Scale, X, 2.0)
    assert message.count("|   File") >= 3
    (first, *_) = re.findall(r"File .*/(\w+)\.py", message)
    assert first == "test_apply"


def test_a_file_with_null_bytes_is_named_and_no_frame_of_the_suite_is(tmp_path, monkeypatch):
    (tmp_path / "nulls.py").write_bytes(b"class A:\0 pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    told = attempt(partial(load, "nulls:A")).message
    assert "(nulls.py" in told
    assert "in load" not in told


def test_a_slip_of_a_test_is_shown_from_the_test_on():
    unfit = {"subject": None, "world": None}
    body = ("conformance.suite.test_apply", "test_it_takes_its_samples", list(unfit), unfit)
    told = attempt(partial(call_body, *body))
    assert told.outcome == "error"
    files = re.findall(r'File ".*/(\w+)\.py"', told.message)
    assert files[0] == "test_apply"
    assert files[-1] == "sample_calls"
