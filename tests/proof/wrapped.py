"""Operators of PyTorch as Functions whose backward differentiates a second call, from what OpInfo says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.autograd import Function
from torch.utils import _pytree as pytree

#: Of so many samples of an operator one is chosen, of so many elements at most, and rather of so many.
LOOKED_AT, MOST, RATHER = 60, 1000, 200
#: A gradient that is no larger is zero but for rounding.
ROUNDING = 1e-12
#: What is made of the gradients of the tensors of a call, in their order; there is None for those that have none.
Wrong = Callable[[list[torch.Tensor | None]], list[torch.Tensor | None]]


class Unasked(Exception):
    """Says why an operator is not judged."""


@dataclass(frozen=True)
class Operator:
    """An operator, as a function of the arguments of one of its samples, which returns its tensors.

    Attributes:
        name: its name and that of its variant.
        function: takes the leaves of the sample.
        args: they.
        differentiable: which results have a gradient.
        draws: whether it draws random numbers; backward then draws them again.
        is_finite: whether its results are.
    """

    name: str
    function: Callable[..., list[torch.Tensor]]
    args: tuple[Any, ...]
    differentiable: tuple[bool, ...]
    draws: bool = False
    is_finite: bool = True

    @classmethod
    def of(cls, info: Any, dtype: torch.dtype) -> Operator:
        """Make one of an entry of OpInfo.

        Raises:
            Unasked: it has no sample that fits.
        """
        torch.manual_seed(0)
        samples = islice(info.sample_inputs("cpu", dtype, requires_grad=True), LOOKED_AT)
        fitting = sorted((sample for sample in samples if 0 < _elements(sample) <= MOST), key=_preference)
        if not fitting:
            raise Unasked(f"no sample of at most {MOST} elements that requires grad, without empty and sparse tensors")
        found = (cls._with(info, sample) for sample in fitting)
        chosen = next((one for one in found if one.is_finite), None) or cls._with(info, fitting[0])
        if not any(chosen.differentiable):
            raise Unasked("no result of it requires grad")
        return chosen

    @classmethod
    def _with(cls, info: Any, sample: Any) -> Operator:
        leaves, structure = _leaves(sample), pytree.tree_structure(_parts(sample))
        tensors = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        before = {at: leaves[at].detach().clone() for at in tensors}
        written: set[int] = set()

        def function(*given: Any) -> list[torch.Tensor]:
            own = [one.clone() if at in written else one for at, one in enumerate(given)]
            value, args, options = pytree.tree_unflatten(own, structure)
            result = info.gradcheck_wrapper(info.op, value, *args, **options)
            found = pytree.tree_leaves((sample.output_process_fn_grad or (lambda result: result))(result))
            return [one for one in found if isinstance(one, torch.Tensor)]

        first = _drawn(1, function, leaves)
        written |= {at for at in tensors if not _equal(leaves[at], before[at])}
        inputs = {at: before[at].requires_grad_(leaves[at].requires_grad) for at in tensors}
        args = tuple(inputs.get(at, leaf) for at, leaf in enumerate(leaves))
        draws = not all(map(_equal, _drawn(1, function, args), _drawn(2, function, args)))
        is_finite = all(bool(result.isfinite().all()) for result in first)
        return cls(name_of(info), function, args, tuple(result.requires_grad for result in first), draws, is_finite)

    @property
    def active(self) -> list[int]:
        """The places of the arguments that are differentiated."""
        return _active(self.args)


def name_of(info: Any) -> str:
    """The name of an operator and that of its variant."""
    return f"{info.name}/{info.variant_test_name}" if info.variant_test_name else info.name


def _parts(sample: Any) -> tuple[Any, ...]:
    return sample.input, sample.args, sample.kwargs


def _leaves(sample: Any) -> list[Any]:
    return pytree.tree_leaves(_parts(sample))


def _elements(sample: Any) -> int:
    """Count those of a sample's tensors; none if one of these is empty or sparse, or if none requires grad."""
    tensors = [leaf for leaf in _leaves(sample) if isinstance(leaf, torch.Tensor)]
    fits = all(tensor.layout is torch.strided and tensor.numel() for tensor in tensors)
    return sum(tensor.numel() for tensor in tensors) if fits and _active(tensors) else 0


def _preference(sample: Any) -> tuple[bool, int, bool]:
    """Sort those with most inputs to differentiate first, small ones among them; those of one or two numbers last."""
    leaves = _leaves(sample)
    active = _active(leaves)
    return all(leaves[at].numel() < 3 for at in active), -len(active), _elements(sample) > RATHER


def _active(args: Sequence[Any]) -> list[int]:
    return [at for at, arg in enumerate(args) if isinstance(arg, torch.Tensor) and arg.requires_grad]


def _drawn(seed: int, function: Callable[..., list[torch.Tensor]], leaves: Sequence[Any]) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return function(*leaves)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.detach(), other.detach(), 0, 0, equal_nan=True)


def function_of(operator: Operator, wrong: Wrong | None = None) -> type[Function]:
    """Make a Function of an operator, with something done to its gradients."""

    class Wrapped(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
            ctx.save_for_backward(*tensors)
            ctx.others = [None if isinstance(arg, torch.Tensor) else arg for arg in args]
            ctx.is_tensor = [isinstance(arg, torch.Tensor) for arg in args]
            ctx.random = torch.get_rng_state() if operator.draws else None
            results = [_apart(result, tensors) for result in operator.function(*args)]
            has_gradient = zip(results, operator.differentiable, strict=False)
            ctx.mark_non_differentiable(*(result for result, has in has_gradient if not has))
            return tuple(results) if len(results) != 1 else results[0]

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            create, saved, args = torch.is_grad_enabled(), iter(ctx.saved_tensors), list(ctx.others)
            inputs: dict[int, torch.Tensor] = {}
            with torch.enable_grad(), torch.random.fork_rng([], enabled=ctx.random is not None):
                for at in (at for at, is_tensor in enumerate(ctx.is_tensor) if is_tensor):
                    args[at] = tensor = next(saved)
                    if ctx.needs_input_grad[at]:
                        own = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
                        args[at] = inputs[at] = own
                if ctx.random is not None:
                    torch.set_rng_state(ctx.random)
                given = _gradients(operator.function(*args), grads, inputs, create)
                gradients = [given.get(at) for at in range(len(args))]
                return tuple(wrong(gradients) if wrong else gradients)

    Wrapped.__name__ = Wrapped.__qualname__ = operator.name
    return Wrapped


def _apart(result: torch.Tensor, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a result that shares no memory with the inputs: whether a view may be returned is asked elsewhere."""
    return result.clone() if any(torch._C._is_alias_of(result, tensor) for tensor in tensors) else result


def _gradients(
    results: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    inputs: dict[int, torch.Tensor],
    create: bool = False,
) -> dict[int, torch.Tensor | None]:
    pairs = [(result, grad) for result, grad in zip(results, grads, strict=True) if result.requires_grad]
    if not pairs or not inputs:
        return {}
    ends, cotangents = zip(*pairs, strict=True)
    found = torch.autograd.grad(ends, [*inputs.values()], cotangents, create_graph=create, allow_unused=True)
    return dict(zip(inputs, found, strict=True))


def mutants(operator: Operator) -> dict[str, Wrong]:
    """Make wrong gradients of an operator: each differs from the right one of its sample."""
    torch.manual_seed(0)
    results = operator.function(*operator.args)
    cotangents = [torch.randn_like(one) if one.requires_grad else one for one in results]
    right = _gradients(results, cotangents, {at: operator.args[at] for at in operator.active})
    sizes = {at: one.to_dense().abs().nan_to_num() for at, one in right.items() if one is not None}
    known = [at for at, size in sizes.items() if float(size.max()) > ROUNDING]
    if not known:
        return {"ones instead of zeros": lambda gradients: [None if one is None else one + 1 for one in gradients]}
    place = int(sizes[known[0]].argmax())

    def one_element(one: torch.Tensor) -> torch.Tensor:
        there = torch.arange(one.numel()).reshape(one.shape) == place % max(1, one.numel())
        return torch.where(there, 2 * one, one)

    doubled = {at: lambda one: 2 * one for at in operator.active}
    made = {"doubled": _changed(doubled), "one element doubled": _changed({known[0]: one_element})}
    return made | ({"one input lost": _changed({known[-1]: torch.zeros_like})} if len(known) > 1 else {})


def _changed(changes: dict[int, Callable[[torch.Tensor], torch.Tensor]]) -> Wrong:
    """Return what changes the gradients in some places."""

    def wrong(gradients: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        return [changes[at](one) if at in changes and one is not None else one for at, one in enumerate(gradients)]

    return wrong
