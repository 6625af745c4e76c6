"""An operator in compiled and exported code: one graph, for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo import config
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim
from torch.utils import _pytree as pytree

from conformance.kit import clause, expect, need
from operator_spec.spec import divided, has_formula, overload_of, tensors_in
from operator_spec.variants import SIZES, error_of, fresh, leaves_of, variants_of

AS_THEY_COME = "one graph for all sizes: in the fake kernel and the formula no int() of a size and no branch on one"


@clause("Operator.compile.fullgraph")
def test_compiled_it_gives_the_same_in_one_graph_for_all_sizes(subject: Any, world: Any) -> None:
    """The results and gradients of eager mode, and no second graph for a sample twice as long."""
    overload_of(subject.target)
    for sample in subject.samples(world):
        graphs = CompileCounterWithBackend("aot_eager")
        with _compiling():
            whole = torch.compile(_caller(subject, sample.args), backend=graphs, fullgraph=True, dynamic=True)
            counts = []
            for what, args in variants_of(subject, sample, SIZES):
                _expect_same(subject, whole, args, f"compiled, {what}")
                counts.append(graphs.frame_count)  # the first may take two: PyTorch begins again for a float
        need(graphs.frame_count, "the compiler is switched off")
        expect.equal(len({*counts}), 1, f"graphs for sample {sample.label} and others of its kind ({AS_THEY_COME})")


@clause("Operator.compile.fullgraph")
def test_exported_it_gives_the_same_for_all_sizes(subject: Any, world: Any) -> None:
    """Exported with sizes that may vary, it gives the results of eager mode for those of another sample."""
    overload_of(subject.target)
    for sample in subject.samples(world):
        whole = None
        for what, args in variants_of(subject, sample, SIZES):
            with _compiling():
                error = None
                if whole is None:
                    error = error_of(lambda kept, given: kept.append(_exported(subject, given)), found := [], args)
                expect.that(error is None, f"torch.export, {what}, takes it", _first_line(error), AS_THEY_COME)
                whole = whole or found[0]
                _expect_same(subject, whole, args, f"exported, {what}", differentiated=False)


@contextmanager
def _compiling() -> Iterator[None]:
    """Compile with sizes that depend on data, and forget what was compiled."""
    try:
        with config.patch(capture_dynamic_output_shape_ops=True):
            yield
    finally:
        torch.compiler.reset()


def _caller(subject: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a function of a sample's arguments that the compiler can read: it knows no schema."""
    overload = overload_of(subject.target)
    given, options = divided(subject.target, args)
    first, names = len(given), tuple(options)
    if not names:
        return lambda *args: overload(*args)
    return lambda *args: overload(*args[:first], **dict(zip(names, args[first:], strict=True)))


def _exported(subject: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
    module = torch.nn.Module()
    module.forward = _caller(subject, args)
    shapes = pytree.tree_map(_dynamic, args)
    return torch.export.export(module, args, dynamic_shapes=(shapes,), strict=False).module()


def _dynamic(value: Any) -> Any:
    """Return which sizes may vary: all but those of 0 and 1, which may have a meaning."""
    if not isinstance(value, torch.Tensor):
        return None
    return {dim: Dim.DYNAMIC for dim, size in enumerate(value.shape) if size > 1}


def _expect_same(
    subject: Any, other: Callable[..., Any], args: tuple[Any, ...], what: str, differentiated: bool = True
) -> None:
    """Raise a Deviation unless another way to call gives the results, the changed arguments and the gradients."""
    grads = differentiated and has_formula(subject.target)
    right = _called(_caller(subject, args), args, grads)
    error = error_of(lambda kept: kept.extend(_called(other, args, grads)), found := [])
    expect.that(error is None, f"a call, {what}, raises nothing", _first_line(error), "what eager mode gives")
    for one, wanted in zip(found, right, strict=True):
        expect.close(one, wanted, f"results, arguments and gradients of a call, {what}")


def _called(function: Callable[..., Any], args: tuple[Any, ...], grads: bool) -> list[torch.Tensor]:
    given = (leaves_of if grads else fresh)(args)
    results = tensors_in(function(*given))
    leaves = [tensor for tensor in tensors_in(given) if tensor.requires_grad]
    ends = [tensor for tensor in results if tensor.requires_grad]
    if not (leaves and ends):
        return [*results, *tensors_in(given)]
    found = torch.autograd.grad(ends, leaves, [torch.ones_like(end) for end in ends], materialize_grads=True)
    return [*(tensor.detach() for tensor in (*results, *tensors_in(given))), *found]


def _first_line(error: Exception | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
