"""Calls of a sample, which can be repeated with other values and with other inputs that need a gradient.

Gradients can also be computed for Functions that do not support ``torch.autograd.grad``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit import seeds
from conformance.kit.answers import OPERATIONS
from conformance.kit.backward import has_backward
from conformance.kit.copies import argument_copy, given_copy, in_layout_of
from conformance.kit.modes import FEW_ELEMENTS, FEW_OPERATIONS, CountingMode, EndingMode
from conformance.kit.subject import Subject
from conformance.kit.tensors import dense, differentiable, freed, tensor_leaves, with_attributes
from conformance.kit.world import World

__all__ = ["Run", "SampleCall"]

#: Forward and backward passes draw the same random numbers every time.
FORWARD_SEED, BACKWARD_SEED = 0, 1
Gradients = tuple[torch.Tensor | None, ...]


@dataclass(frozen=True)
class SampleCall:
    """One flattened sample: ``values`` are all its arguments; ``active`` says which are differentiated.

    An input is differentiated if the sample's tensor requires grad; if none does, all floating-point and complex
    tensors are. A parameter is not, if its module is an argument too: forward reads the module's own.

    >>> from conformance.kit import every_sample
    >>> subject = Subject(torch.mul, inputs=lambda: [(torch.ones(2, requires_grad=True), 3.0)])
    >>> (sample,) = every_sample(subject, World())
    >>> sample.name(sample.active[0]), sample.run().tensors
    ('input 0 of sample 0', (tensor([3., 3.], grad_fn=<MulBackward0>),))
    """

    subject: Subject
    label: str
    values: tuple[Any, ...]
    structure: Any
    names: tuple[str, ...]
    #: Which argument each value belongs to.
    arguments_of: tuple[int, ...]
    active: tuple[int, ...]
    #: Positions of tensors that are arguments themselves; autograd does not look into containers.
    top: frozenset[int]
    #: Those that would be differentiated, but belong to a module that is an argument too.
    of_modules: tuple[int, ...] = ()
    #: Whether its numbers are not those of a sample: an iteration in it need not end.
    is_derived: bool = False
    #: The same of its precision, or of the scale of its loss, where even a short one need not.
    may_not_end: bool = False

    def name(self, position: int) -> str:
        """Name the value at ``position`` for a message: ``input 1 of sample 0``."""
        return f"{self.names[position]} of {self.label}"

    def arguments(self) -> tuple[Any, ...]:
        """Return copies of the arguments, none of which requires grad."""
        return tuple(pytree.tree_unflatten(self.plain, self.structure))

    @property
    def holders(self) -> tuple[Any, ...]:
        """Return the objects that may hold random generators: the arguments, and the called object."""
        return (*self.values, self.subject.target)

    @property
    def plain(self) -> list[Any]:
        """Return copies of the values, none of which requires grad; a module's own parameters are not copied."""
        return [
            with_attributes(value.detach().clone(), value)
            if isinstance(value, torch.Tensor) and at not in self.of_modules
            else value
            for at, value in enumerate(self.values)
        ]

    def having(self, values: dict[int, torch.Tensor]) -> SampleCall:
        """Return the same call with other ``values``, given by position; a module keeps its own parameters."""
        changed = {at: value for at, value in values.items() if at not in self.of_modules}
        for at, value in changed.items():
            if vars(self.values[at]):  # what a caller has written on the tensor, such as main_grad
                changed[at] = with_attributes(value.detach(), self.values[at])
        others = tuple(changed.get(at, value) for at, value in enumerate(self.values))
        return replace(self, values=others, is_derived=True)

    def run(self, needed: Iterable[int] | None = None, seed: int = FORWARD_SEED) -> Run:
        """Call the subject with copies, so that it may change them; random numbers are the same every time.

        Args:
            needed: positions of inputs that need a gradient; by default all active ones.
            seed: another seed for other random numbers.
        """
        wanted = set(self.active if needed is None else needed)
        before = len(seeds.held_generators(self.holders))
        run = self._once(wanted, seed)
        # No seed has reached a generator that an object of the caller's made in this very call.
        return self._once(wanted, seed) if len(seeds.held_generators(self.holders)) > before else run

    def _once(self, wanted: set[int], seed: int) -> Run:
        leaves = {at: value.detach().clone().requires_grad_() for at, value in enumerate(self.values) if at in wanted}
        copies = [
            value if at in self.of_modules else argument_copy(value, leaves.get(at))
            for at, value in enumerate(self.values)
        ]
        return self.called_with(copies, leaves, seed)

    def called_with(self, values: list[Any], leaves: dict[int, torch.Tensor], seed: int = FORWARD_SEED) -> Run:
        """Call the subject with these ``values`` themselves, copied from ``leaves``; ``seed`` is as for :meth:`run`."""
        args = tuple(pytree.tree_unflatten(values, self.structure))
        seeds.seed(seed, self.holders)
        return Run.of(self, args, leaves)


def ending(sample: SampleCall, part: str) -> AbstractContextManager[object]:
    """Return a block in which forward or backward comes to an end.

    The operations of a sample itself are counted once: what takes few is no iteration, and to watch it takes time. So
    is a derived call watched only if it is long or large.
    """
    counts = OPERATIONS.setdefault(sample.subject.label, {})
    most = max(counts.values(), default=FEW_OPERATIONS)
    elements = sum(value.numel() for value in sample.values if isinstance(value, torch.Tensor))
    if sample.may_not_end or (sample.is_derived and (elements > FEW_ELEMENTS or most >= FEW_OPERATIONS)):
        return EndingMode(most, elements)
    key = f"{part} of {sample.label}"
    return nullcontext() if sample.is_derived or key in counts else CountingMode(counts, key)


def operations(sample: SampleCall) -> int:
    """Return how many operations forward takes."""
    counts: dict[str, int] = {}
    with CountingMode(counts, sample.label):
        sample.run()
    return counts[sample.label]


@dataclass(frozen=True)
class Run:
    """A completed call: its arguments, the leaves they were copied from, and the result.

    >>> from conformance.kit import every_sample
    >>> subject = Subject(torch.mul, inputs=lambda: [(torch.ones(2, requires_grad=True), 3.0)])
    >>> run = every_sample(subject, World())[0].run()
    >>> run.outputs, run.gradients([torch.ones(2)])
    ([tensor([3., 3.], grad_fn=<MulBackward0>)], (tensor([3., 3.]),))
    """

    sample: SampleCall
    args: tuple[Any, ...]
    #: The arguments, flattened before the call, since a call may add to a list.
    values: tuple[Any, ...]
    leaves: dict[int, torch.Tensor]
    result: Any
    #: All tensors of the result, in order.
    tensors: tuple[torch.Tensor, ...]
    #: Which of them take part in differentiation; seen at once, since a later call may write into them.
    places: tuple[int, ...]

    @classmethod
    def of(cls, sample: SampleCall, args: tuple[Any, ...], leaves: dict[int, torch.Tensor]) -> Run:
        """Call the subject of ``sample`` with ``args``, which were copied from ``leaves``."""
        values = tuple(pytree.tree_leaves(args))
        with ending(sample, "forward"):
            result = sample.subject(*args)
        tensors = tuple(tensor_leaves(result))
        asked = [at for at, tensor in enumerate(tensors) if tensor.requires_grad and differentiable(tensor)]
        places = tuple(asked) if has_backward(sample.subject) else ()
        return cls(sample, args, values, leaves, result, tensors, places)

    @property
    def outputs(self) -> list[torch.Tensor]:
        """The tensors of the result that take part in differentiation."""
        return [self.tensors[place] for place in self.places]

    def cotangents(self, world: World, *key: object) -> list[torch.Tensor]:
        """A random gradient for each output, contiguous; the same for the same ``key`` and size of ``world``."""
        return [
            in_layout_of(output, world.tensor(world.rank, tuple(output.shape), output.dtype, "cotangent", place, *key))
            for place, output in enumerate(self.outputs)
        ]

    def gradients(self, cotangents: Sequence[torch.Tensor], seed: int = BACKWARD_SEED, **options: bool) -> Gradients:
        """Compute the gradient of every leaf, None if autograd finds none.

        Args:
            cotangents: the gradient of each output.
            seed: random numbers that backward draws start from it.
            **options: go to ``torch.autograd.grad``.
        """
        return self.gradients_of(self.outputs, cotangents, seed, **options)

    def gradients_of(
        self,
        outputs: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor],
        seed: int = BACKWARD_SEED,
        **options: bool,
    ) -> Gradients:
        """Do the same if only some outputs are used.

        A backward that modifies its incoming gradients modifies copies; only a gradient with a special layout is passed
        as it is.

        Args:
            outputs: those that are used.
            cotangents: the gradient of each of them.
            seed: random numbers that backward draws start from it.
            **options: go to ``torch.autograd.grad``.
        """
        seeds.seed(seed, self.sample.holders)
        leaves = list(self.leaves.values())
        given = [given_copy(cotangent) for cotangent in cotangents]
        with self.sample.subject.asking_for_its_group(), ending(self.sample, "backward"):
            return leaf_gradients(list(outputs), leaves, given, **options)

    def filled(self, gradients: Gradients) -> list[torch.Tensor]:
        """The ``gradients`` of the leaves in dense form, with zeros for None, which is how autograd counts it."""
        pairs = zip(gradients, self.leaves.values(), strict=True)
        return [dense(torch.zeros_like(leaf) if gradient is None else gradient) for gradient, leaf in pairs]

    def copies(
        self, cotangents: Sequence[torch.Tensor], seed: int = BACKWARD_SEED
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return copies of the results that still have memory, and of all gradients, with zeros for None.

        Args:
            cotangents: the gradient of each output.
            seed: random numbers that backward draws start from it.
        """
        # Copied before backward, which may give the memory of results back.
        results = [tensor.detach().clone() for tensor in self.tensors if not freed(tensor)]
        gradients = self.filled(self.gradients(cotangents, seed)) if self.outputs else []
        return results, [gradient.detach().clone() for gradient in gradients]


@contextmanager
def grads_kept(leaves: Iterable[torch.Tensor]) -> Iterator[None]:
    """Restore ``grad`` of a caller's own parameters."""
    before = [(leaf, leaf.grad) for leaf in leaves]
    try:
        yield
    finally:
        for leaf, grad in before:
            leaf.grad = grad


def leaf_gradients(
    outputs: Sequence[torch.Tensor],
    leaves: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    create_graph: bool = False,
    **options: Any,
) -> Gradients:
    """Compute the gradient of every leaf, None if there is none.

    A reentrant checkpoint runs a whole backward pass inside its own and rejects :func:`torch.autograd.grad`, so
    :func:`torch.autograd.backward` is used for it, as its users do. It has no second derivative, so that refusal
    stands.
    """
    try:
        return tuple(
            torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True, create_graph=create_graph, **options)
        )
    except RuntimeError as error:
        if create_graph or ".grad()" not in str(error):
            raise
    for leaf in leaves:
        leaf.grad = None
    torch.autograd.backward(outputs, cotangents, **options)
    return tuple(leaf.grad for leaf in leaves)
