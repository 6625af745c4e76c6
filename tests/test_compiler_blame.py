"""What PyTorch's compiler gets wrong for any Function is no fault of one that is compiled; what only one gets is."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function

from conformance import ConformanceError, check
from conformance.core import catalog
from conformance.kit.observation.compiled_engine import METHOD_CALLS, TRANSFORM_CALLS
from tests.planted.engine_compile import backward_is_left_out

ONLY = "Function.compile.agrees"


class Surrogate(Function):
    """Rounds, and passes its gradient straight through: what forward computes has none."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class OtherWhenCompiled(Surrogate):
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad if torch.compiler.is_compiling() else grad


@pytest.fixture
def broken(monkeypatch):
    """A compiler that leaves out the backward of every class."""
    from torch._dynamo.variables.misc import AutogradFunctionVariable

    monkeypatch.setattr(AutogradFunctionVariable, "call_apply", AutogradFunctionVariable.call_apply)
    backward_is_left_out()


def _x() -> torch.Tensor:
    return torch.tensor([0.3, 1.7, -2.2], dtype=torch.float64, requires_grad=True)


def test_a_compiler_that_drops_every_backward_accuses_no_class(broken):
    check(Surrogate, (_x(),), only=ONLY, strict=True)


def test_what_a_class_does_when_compiled_is_its_own():
    check(Surrogate, (_x(),), only=ONLY, strict=True)
    with pytest.raises(ConformanceError, match="compiled, compared with eager mode,"):
        check(OtherWhenCompiled, (_x(),), only=ONLY, strict=True)


def test_every_call_that_is_known_to_the_kit_is_asked():
    """The names stand in the suite too, which is read without being imported."""
    asked = {test.function: {dict(case).get("call") for case in test.cases} for test in catalog.suite()}
    assert asked["test_compiled_code_uses_the_methods"] == set(METHOD_CALLS)
    assert asked["test_compiled_code_keeps_the_rules_among_transforms"] == set(TRANSFORM_CALLS)
