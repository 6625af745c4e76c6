"""MakeViewlessTensor: the same data in a tensor that is not a view, with the graph kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch

from conformance.kit import Subject, World, cases, clause, expect, need
from conformance.kit.observation.looks import function_classes
from conformance.kit.observation.witness import witnessing

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda base: base.view(6, 4),
    "transposed": lambda base: base.t(),
    "row": lambda base: base[1],
    "rows from the second on": lambda base: base[1:],
    "every other column": lambda base: base[:, ::2],
    "expanded": lambda base: base[:, :1].expand(4, 5),
    "diagonal": lambda base: base.diagonal(),
    "one element": lambda base: base[2, 3],
    "no element": lambda base: base[:0],
    "with a dimension more": lambda base: base.unsqueeze(1),
    "view of a view": lambda base: base[1:].t()[2:].unsqueeze(0),
    "one of a split": lambda base: base.split(2)[1],
    "with arbitrary strides": lambda base: base.as_strided((2, 3), (7, 2), 3),
}
PLAIN: Callable[[torch.Tensor], torch.Tensor] = lambda base: base  # noqa: E731


def _base(world: World, dtype: torch.dtype = torch.float64, grad: bool = True) -> torch.Tensor:
    """A tensor to make views of: no leaf if it needs a gradient, since leaves are kept by their graph."""
    values = world.tensor(0, (4, 6), dtype, "base")
    return values.requires_grad_() * 1 if grad else values


@clause("MakeViewlessTensor.forward.viewless")
@cases(requires_grad=[True, False])
def test_result_is_no_view(subject: Subject, world: World, requires_grad: bool) -> None:
    """The result has no _base, whatever view went in."""
    for name, view in {**VIEWS, "no view": PLAIN}.items():
        result = subject(view(_base(world)), requires_grad)
        expect.that(result._base is None, f"_base of the result for an input: {name}", result._base, "None")
        expect.that(not result._is_view(), f"autograd's word on the result for an input: {name}", "a view", "no view")


@clause("MakeViewlessTensor.forward.viewless")
def test_result_is_no_view_without_gradients(subject: Subject, world: World) -> None:
    """The same holds under no_grad, and for an input that needs no gradient."""
    for name, view in VIEWS.items():
        with torch.no_grad():
            quiet = subject(view(_base(world)), False)
        plain = subject(view(_base(world, grad=False)), False)
        expect.that(quiet._base is None, f"_base of the result under no_grad, input: {name}", quiet._base, "None")
        expect.that(plain._base is None, f"_base of the result, input without grad: {name}", plain._base, "None")


@clause("MakeViewlessTensor.forward.shares-data")
@cases(dtype=["float16", "bfloat16", "float32", "float64", "complex64", "int64", "bool"])
def test_result_has_the_memory_of_the_input(subject: Subject, world: World, dtype: str) -> None:
    """Memory, shape, strides, offset, dtype and device are those of the input: nothing is copied."""
    kind: torch.dtype = getattr(torch, dtype)
    grad = kind.is_floating_point or kind.is_complex
    for name, view in {**VIEWS, "no view": PLAIN}.items():
        inp = view(_base(world, kind, grad))
        _expect_same_memory(subject(inp, grad), inp, name)


def _expect_same_memory(result: torch.Tensor, inp: torch.Tensor, name: str) -> None:
    of = f"of the result for an input: {name}"
    expect.equal(tuple(result.shape), tuple(inp.shape), f"shape {of}")
    expect.equal(result.stride(), inp.stride(), f"strides {of}")
    expect.equal(result.dtype, inp.dtype, f"dtype {of}")
    expect.equal(result.device, inp.device, f"device {of}")
    shared = result.untyped_storage().data_ptr() == inp.untyped_storage().data_ptr()
    copied = "a copy was made" if torch.equal(result.detach(), inp.detach()) else ""
    expect.that(shared, f"memory {of}", "memory of its own", "that of the input", copied)
    expect.equal(result.storage_offset(), inp.storage_offset(), f"offset in memory {of}")
    expect.equal(result.detach(), inp.detach(), f"values {of}")


@clause("MakeViewlessTensor.backward.identity")
def test_gradient_passes_unchanged(subject: Subject, world: World) -> None:
    """The gradient of the input is that of the result, and goes on to whatever the input was made from."""
    for name, view in {**VIEWS, "no view": PLAIN}.items():
        leaf = world.tensor(0, (4, 6), torch.float64, "base").requires_grad_()
        inp = view(leaf * 1)
        weight = world.tensor(0, tuple(inp.shape), torch.float64, "weight")
        result = subject(inp, True)
        expect.that(result.requires_grad, f"requires_grad of the result for an input: {name}", False, True)
        actual, onward = torch.autograd.grad(result, [inp, leaf], weight.clone(), allow_unused=True)
        (right,) = torch.autograd.grad(view(leaf), leaf, weight.clone())
        expect.that(actual is not None, f"gradient of an input: {name}", "None", "the gradient of the result")
        expect.close(actual, weight, f"gradient of an input: {name}")
        expect.close(onward, right, f"gradient of what the input is a view of: {name}")


@clause("MakeViewlessTensor.backward.identity")
@cases(requires_grad=[True, False])
def test_none_for_requires_grad(subject: Subject, world: World, requires_grad: bool) -> None:
    """Backward returns None for requires_grad, at any position among the inputs."""
    inp, error = _base(world).t(), None
    with witnessing(*function_classes(subject, lambda: subject(inp, requires_grad))) as witness:
        try:
            result = subject(inp, requires_grad)
            if result.requires_grad:  # the flag may have been taken at its word
                result.backward(torch.ones(result.shape, dtype=result.dtype, device=result.device))
        except RuntimeError as raised:  # PyTorch refuses most of it: what was returned says it better
            error = raised
    returned = witness.returned_for(requires_grad)
    for value in returned:
        expect.that(value is None, "what backward returns for requires_grad", value, "None")
    if error is not None:
        raise error
    need(returned, "no call reached a backward that receives requires_grad unchanged")


@clause("MakeViewlessTensor.forward.releases-base")
@cases(grad=[True, False])
def test_nothing_of_the_view_is_kept(subject: Subject, world: World, grad: bool) -> None:
    """Without other references the view and its base are freed, although the result lives on."""
    result, base, view = _result_and_references(subject, world, grad)
    for name, reference in (("tensor that the input is a view of", base), ("input", view)):
        if reference() is not None:
            gc.collect()  # a cycle is not the result's doing
        what = f"the {name} is released while the result {'and its graph live' if grad else 'lives'}"
        kept = reference() is not None
        result = result if not kept else None
        by_result = kept and not grad and reference() is None
        expect.that(not kept, what, "kept", "gone", "kept on the result itself" if by_result else "")
    expect.that(result is not None, "a result")


def _result_and_references(subject: Subject, world: World, grad: bool) -> tuple[Any, Any, Any]:
    base = _base(world, grad=grad)
    view = base[1:].t()
    return subject(view, grad), weakref.ref(base), weakref.ref(view)


@clause("make_viewless_tensor.keep-graph")
def test_graph_is_kept_when_asked(subject: Subject, world: World) -> None:
    """keep_graph=True gives a viewless tensor through which gradients flow back unchanged."""
    helper = subject.helper("make_viewless_tensor")
    for name, view in VIEWS.items():
        leaf = world.tensor(0, (4, 6), torch.float64, "base").requires_grad_()
        inp = view(leaf)
        weight = world.tensor(0, tuple(inp.shape), torch.float64, "weight")
        result = helper(inp, True, True)
        expect.that(result._base is None, f"_base with keep_graph=True, input: {name}", result._base, "None")
        _expect_same_memory(result, inp, f"{name}, keep_graph=True")
        expect.that(result.requires_grad and not result.is_leaf, f"a graph, input: {name}", "a leaf", "a grad_fn")
        actual, onward = torch.autograd.grad(result, [inp, leaf], weight.clone(), allow_unused=True)
        (right,) = torch.autograd.grad(view(leaf), leaf, weight.clone())
        expect.that(actual is not None, f"gradient of an input: {name}, keep_graph=True", "None", "a gradient")
        expect.close(actual, weight, f"gradient of an input: {name}, keep_graph=True")
        expect.close(onward, right, f"gradient of what the input is a view of: {name}, keep_graph=True")


@clause("make_viewless_tensor.keep-graph")
@cases(requires_grad=[True, False], grad=[True, False])
def test_graph_is_dropped_when_asked(subject: Subject, world: World, requires_grad: bool, grad: bool) -> None:
    """keep_graph=False returns a leaf over the same memory with the given requires_grad, whatever the input's."""
    helper = subject.helper("make_viewless_tensor")
    for name, view in VIEWS.items():
        inp = view(_base(world, grad=grad))
        result = helper(inp, requires_grad, False)
        of = f"for an input: {name}, keep_graph=False"
        expect.that(result._base is None, f"_base {of}", result._base, "None")
        expect.that(result.grad_fn is None, f"grad_fn {of}", result.grad_fn, "None")
        expect.that(result.is_leaf, f"is_leaf {of}", result.is_leaf, True)
        expect.equal(result.requires_grad, requires_grad, f"requires_grad {of}")
        _expect_same_memory(result, inp, f"{name}, keep_graph=False")
        expect.equal(inp.requires_grad, grad, f"requires_grad of the input itself, afterwards, {of}")


@clause("make_viewless_tensor.not-a-view")
@cases(keep_graph=[True, False], requires_grad=[True, False])
def test_plain_tensor_comes_back_as_it_is(
    subject: Subject, world: World, keep_graph: bool, requires_grad: bool
) -> None:
    """An input that is not a view is returned itself: a leaf, a result, a parameter, with and without grad."""
    helper = subject.helper("make_viewless_tensor")
    plain = {
        "a leaf": world.tensor(0, (2, 3), torch.float32, "plain"),
        "a leaf that requires grad": world.tensor(0, (2, 3), torch.float32, "plain").requires_grad_(),
        "a result": _base(world),
        "a parameter": torch.nn.Parameter(world.tensor(0, (3,), torch.float32, "plain")),
    }
    for name, inp in plain.items():
        before = inp.requires_grad
        result = helper(inp, requires_grad, keep_graph)
        expect.that(result is inp, f"result for {name}", "another tensor", "the input itself")
        expect.equal(inp.requires_grad, before, f"requires_grad of {name}, afterwards")
