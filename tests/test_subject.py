"""Subject: what may be under test, with which adapters and inputs, and what is said where it cannot be tested."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace

import numpy
import pytest
import torch

from conformance import ConformanceError, Subject, check
from conformance.core.errors import UsageError
from conformance.core.homes import names
from conformance.kit.deviations import NotApplicable
from conformance.kit.loading import check_subject, load, resolve
from conformance.kit.samples import fresh
from conformance.kit.specs import Specification, specification
from conformance.kit.world import World

Pair = namedtuple("Pair", "left right")


class Scale(torch.autograd.Function):
    """A factor that is no tensor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


def ones(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, requires_grad=dtype.is_floating_point or dtype.is_complex)


def random_inputs():
    yield torch.rand(3, dtype=torch.float64), 2.0


def a_subject(**more) -> Subject:
    return check_subject(Subject(**{"target": Scale, "inputs": [(ones(3), 2.0)], **more}))


def test_a_label_is_the_name_or_else_where_the_target_stands():
    assert Subject("a.b:C").label == "a.b:C"
    assert Subject(Scale).label == "tests.test_subject:Scale"
    assert Subject(Scale, name="mine").label == "mine"
    assert Subject(SimpleNamespace()).label == "types:SimpleNamespace"


def test_what_a_class_defines():
    class Separate(Scale):
        generate_vmap_rule = True

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    combined, separate, plain = a_subject(), a_subject(target=Separate), Subject(torch.sin, inputs=[(ones(1),)])
    assert (combined.separate, combined.transformable) == (False, False)
    assert (separate.separate, separate.transformable) == (True, True)
    assert (plain.function, plain.separate, plain.transformable) == (None, False, True)
    assert combined.defines("backward")
    assert not combined.defines("jvp")
    assert (combined.generates_vmap, separate.generates_vmap) == (False, True)


def test_a_helper_is_given_or_stands_on_the_class_or_beside_it():
    assert a_subject(helpers=(("twice", abs),)).helper("twice") is abs
    assert a_subject(helpers={"twice": abs}).helpers == (("twice", abs),)
    assert a_subject().helper("random_inputs") is random_inputs
    with pytest.raises(NotApplicable, match=r"give one as Subject\(helpers="):
        a_subject().helper("make_nothing")


def test_every_spec_that_has_clauses_has_a_specification():
    assert {type(specification(name)) for name in names()} == {Specification}


def test_the_kind_of_gradient_follows_from_formula_and_spec():
    assert a_subject().gradient_kind == "numeric"
    assert a_subject(formula=lambda args, grads: grads).gradient_kind == "declared"
    assert Subject(Scale, spec="GradFactor").gradient_kind == "spec"


def test_a_call_of_ones_own_bridges_another_signature():
    swapped = Subject(Scale, inputs=[(3.0, ones(2))], call=lambda function, factor, x: function.apply(x, factor))
    assert torch.equal(swapped(3.0, ones(2)), 3 * ones(2))
    assert check(swapped).subjects[0].verdict == "conforms"


def test_a_plain_callable_is_tested_where_clauses_say_something_about_it():
    report = check(torch.sin, (ones(3),))
    verdicts = {clause.id: clause.verdict for clause in report.subjects[0].clauses}
    assert verdicts["Function.backward.gradient"] == "pass"
    assert verdicts["Function.vmap.not-both"] == "not-applicable"


def test_inputs_are_the_same_at_every_call_and_leave_the_generators_alone():
    subject = a_subject(inputs=random_inputs)
    state = torch.get_rng_state()
    one, other = (subject.samples(World())[0].args[0] for _ in range(2))
    assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(subject.samples(World(rank=1))[0].args[0], one)


def test_a_generator_of_inputs_can_be_gone_through_more_than_once():
    subject = a_subject(inputs=random_inputs())
    assert [len(subject.samples(World())) for _ in range(2)] == [1, 1]


LAYOUTS = {
    "transposed": torch.arange(6.0).view(2, 3).t(),
    "sliced": torch.arange(6.0)[1::2],
    "expanded": torch.ones(1).expand(3),
    "conjugated": torch.ones(2, dtype=torch.complex64).mul(1 + 2j).conj(),
    "negated": torch.ones(2, dtype=torch.complex64).mul(1 + 2j).conj().imag,
    "empty": torch.ones(0, 2),
    "without dimensions": torch.tensor(2.0),
    "half": torch.ones(2, dtype=torch.float16),
    "integer": torch.arange(3),
    "bool": torch.tensor([True, False]),
    "sparse": torch.eye(2).to_sparse(),
    "requires grad": torch.ones(2, requires_grad=True),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_copy_is_as_the_tensor_is_and_shares_nothing(name):
    tensor = LAYOUTS[name]
    (copy,) = fresh((tensor,))
    assert (copy.shape, copy.dtype, copy.layout) == (tensor.shape, tensor.dtype, tensor.layout)
    assert (copy.requires_grad, copy.is_leaf) == (tensor.requires_grad, True)
    assert torch.equal(copy.to_dense(), tensor.to_dense())
    if tensor.layout == torch.strided:
        assert (copy.stride(), copy.is_conj(), copy.is_neg()) == (tensor.stride(), tensor.is_conj(), tensor.is_neg())
        assert copy.numel() == 0 or copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


def test_copies_reach_into_nested_arguments_and_arrays():
    x, array, other = ones(2), numpy.arange(3.0), object()
    args = ({"a": [x, None]}, Pair(x, 2), array, other, "text")
    copied = fresh(args)
    assert copied[0]["a"][0] is not x
    assert torch.equal(copied[0]["a"][0], x)
    assert isinstance(copied[1], Pair)
    assert copied[2] is not array
    assert (copied[2] == array).all()
    assert copied[3] is other
    assert copied[4] == "text"


@pytest.mark.parametrize(
    "args",
    {
        "nested": ({"x": [ones(2), None]}, 2.0),
        "complex": (ones(2, dtype=torch.complex128), 2.0),
        "half": (ones(2, dtype=torch.float16), 2.0),
        "empty": (ones(0, 3), 2.0),
        "without dimensions": (ones(), 2.0),
        "array": (ones(3), numpy.arange(3.0)),
    }.values(),
    ids=str,
)
def test_inputs_of_every_kind_are_taken(args):
    def call(function, x, factor):
        x = x["x"][0] if isinstance(x, dict) else x
        return function.apply(x, float(factor[2]) if isinstance(factor, numpy.ndarray) else factor)

    assert check(Scale, (ones(3), 2.0), args, call=call).subjects[0].verdict == "conforms"


def test_names_on_the_command_line():
    assert load("math:pi") > 3
    subject = resolve("tests.test_subject:Scale", None, "tests.test_subject:random_inputs")
    assert (subject.target, subject.spec, subject.label) == (Scale, "Function", "tests.test_subject:Scale")
    assert len(subject.samples(World())) == 1


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("math", "is not of the form module:attribute"),
        ("math:", "is not of the form module:attribute"),
        ("ma th:pi", "is not of the form module:attribute"),
        ("math:pie", "module 'math' has no attribute 'pie'"),
        ("nowhere.at_all:x", "no module named 'nowhere'"),
        ("math:pi", "is a float, not a Function class"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_on_one_line(reference, said):
    with pytest.raises(UsageError, match=said) as caught:
        resolve(reference, None, None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("spec", "result"), [("AllGather", "list"), ("Function", "joined"), ("GradFactor", "stacked")])
def test_a_form_of_result_is_refused_where_it_means_nothing(spec, result):
    with pytest.raises(UsageError, match="tuple, joined, stacked, for a spec that gathers"):
        a_subject(spec=spec, result=result)


@pytest.mark.parametrize(("result", "dim"), [("joined", 0), ("joined", 1), ("stacked", 0), ("stacked", 2)])
def test_a_joined_or_stacked_result_is_given_as_the_documented_tuple(result, dim):
    x = torch.rand(2, 3)
    whole = x if result == "joined" else x.unsqueeze(dim)
    subject = a_subject(target=lambda _: whole, spec="AllGatherGradAutograd", inputs=None, result=result, dim=dim)
    (entry,) = subject(x)
    assert torch.equal(entry, x)
    assert subject.undivided(x) is whole


# On ranks.


class Gather(torch.autograd.Function):
    """A gather in another layout, with a group as its first argument."""

    @staticmethod
    def forward(ctx, group, x):
        import torch.distributed as dist

        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.stack(parts, -1)

    @staticmethod
    def backward(ctx, grad):
        import torch.distributed as dist

        total = grad.contiguous()
        dist.all_reduce(total)
        return None, total[..., dist.get_rank()]


SUM_CLAUSE = "AllGatherGradAutograd.backward.sum"
SUM = "test_gradient_is_the_sum_over_ranks"


def apart(function, x):
    return function.apply(None, x).unbind(-1)


def test_a_gather_at_the_top_of_a_module_is_checked_on_two_ranks():
    report = check(Subject(Gather, spec="AllGatherGradAutograd", call=apart), ranks=2, only=SUM)
    ran = [test for clause in report.subjects[0].clauses for test in clause.tests if test.outcome != "skip"]
    assert {(test.clause, test.outcome, test.world) for test in ran} == {(SUM_CLAUSE, "pass", 2)}


def test_a_local_gather_with_a_lambda_is_sent_to_its_ranks():
    class Slice(Gather):
        @staticmethod
        def backward(ctx, grad):
            import torch.distributed as dist

            return None, grad[..., dist.get_rank()].clone()

    with pytest.raises(ConformanceError) as caught:
        check(Slice, spec="AllGatherGradAutograd", call=lambda f, x: f.apply(None, x).unbind(-1), ranks=2, only=SUM)
    text = str(caught.value)
    for words in (
        "rank 0 of 2",
        "slice instead of sum",
        "check(Slice, ..., only='AllGatherGradAutograd.backward.sum', spec='AllGatherGradAutograd', ranks=2)",
    ):
        assert words in text


def test_what_cannot_be_sent_is_told():
    lock = __import__("threading").Lock()
    with pytest.raises(ValueError, match="cannot be sent to rank processes: TypeError"):
        check(Gather, spec="AllGatherGradAutograd", call=lambda f, x: lock, ranks=2, only=SUM)


@pytest.mark.parametrize("fate", ["killed", "hangs"])
def test_a_function_that_dies_or_hangs_on_ranks_leaves_the_caller_alone(fate):
    class Doomed(Gather):
        @staticmethod
        def backward(ctx, grad):
            import os
            import time

            os.abort() if fate == "killed" else time.sleep(1000)

    limit = 1.0 if fate == "hangs" else 60.0  # seconds
    with pytest.raises(ConformanceError, match="killed by SIGABRT" if fate == "killed" else "TIMEOUT"):
        check(Doomed, spec="AllGatherGradAutograd", call=apart, ranks=2, only=SUM, timeout=limit)
