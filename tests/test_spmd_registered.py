"""Types that a class declares by a registration with spmd_types, where it has no ``spmd_typecheck`` of its own."""

from __future__ import annotations

import sys

import pytest
import spmd_types as spmd
import torch
from torch.autograd import Function

from conformance import GROUP, ConformanceError, check
from tests.correct import collective as right
from tests.correct import collective_hooks as hooks
from tests.one_gradient import matrix

GRADIENT = "Collective.backward.gradient"


class Gather(Function):
    forward, backward = right.GatherForOneLoss.forward, right.GatherForOneLoss.backward
    declared = spmd.I

    @classmethod
    def typecheck_forward(cls, x: torch.Tensor, group: object) -> torch.Tensor:
        spmd.assert_type(x, {group: spmd.V})
        result = cls.apply(x, group)
        spmd.assert_type(result, {group: cls.declared})
        return result


class GatherForMany(Gather):
    declared = spmd.R


class Scaled(hooks.Scaled):
    spmd_typecheck = None


class GatherAsIfLocal(Function):
    forward, backward = right.GatherForOneLoss.forward, right.GatherForOneLoss.backward


class Decomposed(Scaled):
    pass


spmd.register_autograd_function(Gather)
spmd.register_autograd_function(GatherForMany)
spmd.register_local_autograd_function(Scaled)
spmd.register_local_autograd_function(GatherAsIfLocal)
spmd.register_decomposition(Decomposed, lambda x, group: 2 * x)


def gradient_of(function: type, **options: object) -> str:
    report = check(function, (matrix(), GROUP), spec="Collective", ranks=2, only=GRADIENT, **options)
    return report.subjects[0].clause(GRADIENT).verdict


@pytest.mark.parametrize("function", [Gather, Scaled, Decomposed])
def test_a_class_is_judged_by_the_types_that_it_is_registered_with(function):
    assert gradient_of(function) == "pass"


@pytest.mark.parametrize(("function", "types"), [(GatherForMany, "V -> R"), (GatherAsIfLocal, "R -> R")])
def test_types_that_are_not_kept_are_shown_beside_those_that_are(function, types):
    with pytest.raises(ConformanceError) as raised:
        gradient_of(function)
    said = " ".join(str(raised.value).replace("|", "").split())
    assert f"{types}, declared for spmd_types, is not kept" in said
    assert "it keeps V -> I instead" in said


def test_types_that_are_given_override_the_registration():
    assert gradient_of(GatherForMany, types="V -> I") == "pass"


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "spmd_types", None)
    with pytest.raises(ConformanceError) as raised:
        gradient_of(hooks.GatherForOneLoss, simulated=True)
    said = " ".join(str(raised.value).split())
    assert "spmd_types, which cannot be imported" in said
    assert "pip install spmd-types, or give types" in said
