"""Show what PyTorch's generated vmap rule loses of a Function, by a subclass that loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import chain
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit.subject import Subject
from conformance.kit.tensors import differentiable, many, tensor_leaves

NO_DIRTY = "PyTorch's generated rule loses the tensors of ctx.mark_dirty, and then raises for every batch"
LOSSES = (
    "PyTorch's generated rule has known gaps: it does not map ctx.saved_for_forward, keeps only the batch dimensions "
    "of the last save, ignores ctx.mark_non_differentiable, miscounts nested arguments in jvp, and adds up the "
    "gradient of an unmapped output once per sample"
)

NAMED = "forward returns a named tuple, which PyTorch's generated rule does not accept: return tuple(...) of it"


def with_plain_tuples(subject: Subject) -> Subject:
    """Return the subject with a subclass whose forward returns a plain tuple if the class returns a named one."""
    function: Any = subject.function

    def forward(*inputs: Any) -> Any:
        found = function.forward(*inputs)
        return tuple(found) if isinstance(found, tuple) else found

    return subject.overriding(forward=forward)


def without_losses(subject: Subject) -> Subject | None:
    """Return the subject with a subclass for which the generated rule loses nothing; None if it asks for none.

    The subclass saves all tensors in one order for both modes, passes each method those that the class saved for it,
    and returns zeros for tangents that jvp omits.
    """
    function: Any = subject.function
    if function is None or not subject.generates_vmap:
        return None

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        given = _Saves(ctx)
        function.setup_context(given, inputs, output)
        both = (*given.for_backward, *given.for_forward)
        ctx.save_for_backward(*both)
        ctx.save_for_forward(*both)
        ctx.conformance_saves = len(given.for_backward), [_blank(value) for value in many(output)]

    def backward(ctx: Any, *grads: Any) -> Any:
        count, _ = ctx.conformance_saves
        return function.backward(_with_saved(ctx, ctx.saved_tensors[:count]), *grads)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        count, blanks = ctx.conformance_saves
        found = function.jvp(_with_saved(ctx, ctx.saved_tensors[count:] or ctx.saved_tensors), *tangents)
        if not isinstance(found, tuple) or len(found) != len(blanks):
            return found
        return tuple(blank() if tangent is None else tangent for tangent, blank in zip(found, blanks, strict=True))

    members = {"setup_context": setup_context, "backward": backward, "jvp": jvp}
    return subject.overriding(**{name: member for name, member in members.items() if subject.defines(name)})


def without_nesting(subject: Subject) -> Subject:
    """Return the subject with a subclass that receives the values inside nested arguments one by one.

    When the generated rule maps tangents, it counts each of these values, but there is one tangent for the whole
    argument.
    """
    function: Any = subject.function

    def forward(nesting: _Nesting, *leaves: Any) -> Any:
        return function.forward(*nesting.built(leaves))

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        nesting, *leaves = inputs
        ctx.conformance_nesting = nesting
        function.setup_context(_Nested(ctx), nesting.built(leaves), output)

    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.conformance_nesting.spread(many(function.backward(_Nested(ctx), *grads)))

    def jvp(ctx: Any, *tangents: Any) -> Any:
        return function.jvp(_Nested(ctx), *ctx.conformance_nesting.gathered(tangents, of_nested=None))

    members = {"forward": forward, "setup_context": setup_context, "backward": backward, "jvp": jvp}
    own: dict[str, Any] = {name: member for name, member in members.items() if subject.defines(name)}
    return subject.overriding(_Flattening, original=function.forward, **own)


def with_mapped_outputs(subject: Subject) -> Subject:
    """Return the subject with a subclass in which every output depends on every input, so that all of them are mapped.

    The generated rule sums the gradients of all samples for an input that is not mapped. The gradient of an output that
    is not mapped is for the whole batch, and is counted once per sample.
    """
    function: Any = subject.function

    def forward(*inputs: Any) -> Any:
        found = function.forward(*inputs)
        zero = sum(torch.zeros_like(value, dtype=torch.int64).sum() for value in tensor_leaves(inputs))
        return pytree.tree_map_only(torch.Tensor, lambda value: (value + zero).to(value.dtype), found)

    return subject.overriding(forward=forward)


class _Flattening(torch.autograd.Function):
    """Comes after a class in its bases, so that the class's own ``apply`` runs before this one."""

    original: Callable[..., Any]

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Pass on how arguments are nested, then every value inside them."""
        bound = signature(cls.original).bind(*args, **kwargs)
        bound.apply_defaults()
        leaves, structure = pytree.tree_flatten(bound.args)
        each = [pytree.tree_structure(argument) for argument in bound.args]
        counts = tuple(None if own.is_leaf() else own.num_leaves for own in each)
        return super().apply(_Nesting(structure, counts), *leaves, **bound.kwargs)


@dataclass(frozen=True)
class _Nesting:
    """How arguments are nested, and how many values each contains; None for one that is a value itself."""

    structure: pytree.TreeSpec
    counts: tuple[int | None, ...]

    def built(self, leaves: Iterable[Any]) -> tuple[Any, ...]:
        """Rebuild the arguments from these values."""
        return tuple(pytree.tree_unflatten(leaves, self.structure))

    def gathered(self, values: Sequence[Any], of_nested: Any) -> tuple[Any, ...]:
        """Reduce values for this note and all leaves to one for each argument: ``of_nested`` for a nested one."""
        pairs = zip(self.built(values[1:]), self.counts, strict=True)
        return tuple(value if count is None else of_nested for value, count in pairs)

    def spread(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Expand values for the arguments, possibly followed by Nones, to one for this note and each leaf."""
        pairs = zip(values, self.counts, strict=False)
        parts = [[value] if count is None else [None] * count for value, count in pairs]
        return (None, *chain.from_iterable(parts))


class _Around:
    """A wrapper of a ctx that passes on unknown attributes."""

    def __init__(self, ctx: Any, **own: Any) -> None:
        vars(self).update(own, _ctx=ctx)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


class _Saves(_Around):
    """Records what is saved instead of saving it."""

    def __init__(self, ctx: Any) -> None:
        super().__init__(ctx, for_backward=(), for_forward=())

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        vars(self).update(for_backward=tensors)

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None:
        vars(self).update(for_forward=tensors)


def _with_saved(ctx: Any, tensors: tuple[torch.Tensor | None, ...]) -> _Around:
    """Wrap a ctx that returns these tensors as saved, under either name."""
    return _Around(ctx, saved_tensors=tensors, saved_for_forward=tensors)


class _Nested(_Around):
    """Reduces needs_input_grad to one flag for each argument of apply."""

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """One flag for each argument; False if it is nested."""
        ctx = vars(self)["_ctx"]
        flags: tuple[bool, ...] = ctx.conformance_nesting.gathered(ctx.needs_input_grad, of_nested=False)
        return flags


def _blank(value: Any) -> Callable[[], Any]:
    """Make the tangent of an output that has none: zeros if PyTorch accepts a tangent."""
    if not differentiable(value):
        return lambda: None
    return partial(torch.zeros, value.shape, dtype=value.dtype, device=value.device)
