"""The reference: both forms agree to the bit on one rank, and what the suite does not ask of it."""

from __future__ import annotations

import gc
import weakref
from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from spec_impl.function import Function
from spec_impl.ksuit import AllGatherGradAutograd, AllGatherGradAutogradSeparate
from spec_impl.megatron import MakeViewlessTensor, MakeViewlessTensorSeparate
from spec_impl.nested_io import NestedIOFunction, NestedIOFunctionSeparate
from spec_impl.torchlogix import GradFactor, GradFactorSeparate
from spec_impl.towhee import AllGather, AllGatherSeparate

Pair = namedtuple("Pair", "left right")
ALONE = SimpleNamespace(world_size=1, local_rank=0)
FORMS = {
    "AllGatherGradAutograd": (AllGatherGradAutograd, AllGatherGradAutogradSeparate, ()),
    "AllGather": (AllGather, AllGatherSeparate, (ALONE,)),
    "GradFactor": (GradFactor, GradFactorSeparate, (-0.3,)),
    "MakeViewlessTensor": (MakeViewlessTensor, MakeViewlessTensorSeparate, (True,)),
}
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "sliced": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1].expand(5, -1),
    "empty": lambda x: x[:0],
}


@pytest.fixture(autouse=True)
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def run(function, x, rest):
    x = x.detach().requires_grad_()
    outputs = function.apply(x, *rest)
    output = outputs[0] if isinstance(outputs, tuple) else outputs
    weight = torch.linspace(-1, 1, output.numel(), dtype=x.dtype).reshape(output.shape)
    (grad,) = torch.autograd.grad((output * output * weight).sum().real, x, create_graph=True)
    (second,) = torch.autograd.grad((grad * weight).sum().real, x)
    return output.detach(), grad.detach(), second


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_both_forms_agree_to_the_bit(name, dtype, layout):
    combined, separate, rest = FORMS[name]
    x = LAYOUTS[layout](torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).to(dtype))
    for one, other in zip(run(combined, x, rest), run(separate, x, rest), strict=True):
        assert torch.equal(one, other)
        assert one.dtype == other.dtype
        assert one.stride() == other.stride()


class Combined(NestedIOFunction):
    def forward_extended(self, pair, table):
        self.save_for_backward(pair, table)
        return {"product": pair.left * pair.right, "sine": [table["x"].sin(), None]}

    def backward_extended(self, grads):
        pair, table = self.saved_tensors
        grad, (wave, _) = grads["product"], grads["sine"]
        return Pair(grad * pair.right, grad * pair.left), {"x": wave * table["x"].cos()}


class Separate(NestedIOFunctionSeparate):
    @staticmethod
    def forward_extended(pair, table):
        return {"product": pair.left * pair.right, "sine": [table["x"].sin(), None]}

    @staticmethod
    def setup_context_extended(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward_extended(ctx, grads):
        pair, table = ctx.saved_tensors
        grad, (wave, _) = grads["product"], grads["sine"]
        return Pair(grad * pair.right, grad * pair.left), {"x": wave * table["x"].cos()}


def nested(function, x, y):
    result = function(Pair(x, y), {"x": y})
    return result["product"], result["sine"][0]


def test_both_forms_of_nested_functions_agree_to_the_bit():
    x, y = (torch.randn(3, dtype=torch.double, requires_grad=True) for _ in range(2))
    ones = (torch.ones(3, dtype=torch.double),) * 2
    for one, other in zip(
        torch.autograd.grad(nested(Combined(), x, y), (x, y), ones),
        torch.autograd.grad(nested(Separate.apply, x, y), (x, y), ones),
        strict=True,
    ):
        assert torch.equal(one, other)
    assert torch.autograd.gradcheck(lambda *args: nested(Separate.apply, *args), (x, y), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda *args: nested(Combined(), *args), (x, y))


def test_the_separate_nested_form_works_under_vmap():
    x, y = torch.randn(4, 3), torch.randn(3)
    product, sine = torch.vmap(lambda x: nested(Separate.apply, x, y))(x)
    assert torch.equal(product, x * y)
    assert torch.equal(sine, y.sin().expand(4, 3))


def test_a_nested_call_is_freed_without_the_garbage_collector():
    x = torch.ones(2, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        result = Combined()(Pair(x, x), {"x": x})
        gone = [weakref.ref(result["product"]), weakref.ref(result["product"].grad_fn.call)]
        del result
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("bad", [{1}, [{"q": object()}], {"x": iter(())}], ids=["set", "object", "iterator"])
def test_what_cannot_be_nested_is_named_with_its_place(bad):
    with pytest.raises(ValueError, match=r"^args\[0\].* is a \w+, which cannot be nested"):
        Combined()(bad, None)


def test_gradients_nested_in_another_way_are_refused():
    class Wrong(Combined):
        def backward_extended(self, grads):
            return Pair(grads["product"], [grads["product"]]), None

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=r"backward_extended\[0\]\[1\] must be a tensor or None, but is a list"):
        nested(Wrong(), x, x)[0].sum().backward()


def test_the_documented_members_of_function_leave_torch_as_it_is():
    assert Function.__mro__[1] is torch.autograd.Function
    for name in ("forward", "setup_context", "backward", "vjp", "jvp", "vmap", "save_for_backward", "__call__"):
        assert getattr(Function, name) is getattr(torch.autograd.Function, name)


def test_a_process_outside_the_group_is_told():
    with pytest.raises(ValueError, match="not a rank of the process group"):
        AllGatherGradAutogradSeparate.apply(torch.ones(1), dist.GroupMember.NON_GROUP_MEMBER)
