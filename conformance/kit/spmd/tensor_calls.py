"""Turn a sample of a collective into a function of its tensors only, for the mathematics of SPMD types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import torch
import torch.autograd.forward_ad as fwd
import torch.distributed as dist
from torch.utils import _pytree as pytree

from conformance.kit import seeds
from conformance.kit.deviations import Skipped
from conformance.kit.display import shown
from conformance.kit.numerics.formula import asked
from conformance.kit.process_groups import GROUP, placed
from conformance.kit.samples import Sample
from conformance.kit.spmd.owed import Cotangents, DeclaredGroupCall, GroupCall
from conformance.kit.subject import Subject
from conformance.kit.tensors import differentiable, differing_places, fingerprint, is_strided, tensor_leaves, to_double
from conformance.kit.typed_values import one_fewer
from conformance.kit.variations.sizes import LONG
from conformance.kit.world import World

#: A tensor of more elements is moved along this many random directions, not element by element.
MOVED_WHOLE, DIRECTIONS = 6, 4


@dataclass(frozen=True)
class TensorCall:
    """One sample, taken apart.

    Attributes:
        values: its arguments, flattened.
        places: which of the values are tensors.
        dtype: what every tensor that can be differentiated is made into before the call; None leaves each its own.
        most: a tensor of more elements is moved along random directions, not element by element.
        directions: along how many.
        uneven: which of the tensors have another shape on another rank, or whole numbers that are others there: each
            rank keeps its own, and those that are differentiated are moved along directions.
        counts: those of them that have the same shape on all ranks, such as how many rows each rank gets.
        fewer: which are masks or labels of which every other rank keeps one fewer.
    """

    subject: Subject
    label: str
    values: tuple[Any, ...]
    structure: Any
    places: tuple[int, ...]
    dtype: torch.dtype | None = None
    most: int = MOVED_WHOLE
    directions: int = DIRECTIONS
    uneven: frozenset[int] = frozenset()
    counts: frozenset[int] = frozenset()
    fewer: frozenset[int] = frozenset()

    @classmethod
    def of(cls, subject: Subject, sample: Sample) -> TensorCall:
        """Flatten a sample. If no tensor of it requires grad, every differentiable one is differentiated."""
        values, structure = pytree.tree_flatten(sample.args)
        places = tuple(at for at, value in enumerate(values) if isinstance(value, torch.Tensor))
        if not any(values[at].requires_grad for at in places):
            values = [value.requires_grad_() if differentiable(value) else value for value in values]
        return cls(subject, sample.label, tuple(values), structure, places)

    def converted(self, dtype: torch.dtype | None) -> TensorCall:
        """Return the same call with tensors of another dtype; complex ones stay complex."""
        return replace(self, dtype=dtype)

    def along_two(self) -> TensorCall:
        """The same call with each tensor moved along two directions: a fraction of the calls, and no element named."""
        return replace(self, most=2, directions=2)

    def lengthened(self) -> TensorCall | None:
        """The call with over a thousand elements in the first tensor, and as many more rows in all with as many rows.

        None where something else is passed that may be tied to the sizes: whole numbers, indices, objects; or where
        they differ from rank to rank.
        """
        if self.uneven or not all(map(_is_untied, self.values)) or not self.tensors or self.tensors[0].numel() == 0:
            return None
        first = self.tensors[0]
        rows, times = first.shape[:1], -(-LONG // first.numel())
        if not rows or times == 1:
            return None
        is_longer = [isinstance(value, torch.Tensor) and value.shape[:1] == rows for value in self.values]
        longer = (_repeated(x, times) if grows else x for x, grows in zip(self.values, is_longer, strict=True))
        return replace(self, label=f"{self.label}, made longer", values=tuple(longer))

    def cut(self, size: int, new: int) -> TensorCall:
        """The same call with tensors that are shorter wherever they are of one size."""
        values = [_cut(value, size, new) if isinstance(value, torch.Tensor) else value for value in self.values]
        return replace(self, values=tuple(values))

    def containers(self) -> list[Sequence[Any]]:
        """The lists and tuples among the arguments, at any depth."""
        found: list[Sequence[Any]] = []
        waiting = list(pytree.tree_unflatten(list(self.values), self.structure))
        while waiting:
            if isinstance(part := waiting.pop(), list | tuple):
                found.append(part)
                waiting += part
        return found

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensor arguments."""
        return [self.values[at] for at in self.places]

    def told(self, why: str) -> str:
        """Describe the error of a gradient, according to how the tensors were changed: one by one if they are few."""
        is_along = any(differentiable(own) and self._is_moved_along(at) for at, own in enumerate(self.tensors))
        return why.replace("at element", "along random direction") if is_along else why

    @property
    def takes_a_group(self) -> bool:
        """Whether the process group is among the arguments."""
        return any(value is GROUP for value in self.values)

    @property
    def precision(self) -> float:
        """The machine epsilon of the coarsest dtype that the subject is called with."""
        return float(max((torch.finfo(kind).eps for kind in self.dtypes), default=torch.finfo(torch.float64).eps))

    @property
    def dtypes(self) -> list[torch.dtype]:
        """The dtypes of the tensors that can be differentiated, as the subject is called with them."""
        return [self._dtype(tensor) for tensor in self.tensors if differentiable(tensor)]

    def _dtype(self, tensor: torch.Tensor) -> torch.dtype:
        if self.dtype is None:
            return tensor.dtype
        return self.dtype.to_complex() if tensor.is_complex() else self.dtype

    def samples(self) -> list[torch.Tensor]:
        """Return what to differentiate by: the tensors in double precision or, if large, steps along directions."""
        return [self._sample(at) for at in range(len(self.places))]

    def _sample(self, at: int) -> torch.Tensor:
        tensor = self.tensors[at]
        if not differentiable(tensor):
            return tensor.new_empty(0) if at in self.uneven else tensor
        wide = to_double(tensor.detach())
        found = wide.new_zeros(self.directions) if self._is_moved_along(at) else wide.clone()
        return found.requires_grad_(tensor.requires_grad)

    def _is_moved_along(self, at: int) -> bool:
        """Whether one of the tensors is moved along directions, and not element by element."""
        return at in self.uneven or self.tensors[at].numel() > self.most

    def grown(self, steps: torch.Tensor, own: torch.Tensor, name: str) -> torch.Tensor:
        """The tensor that such steps stand for, differentiable; a name tells its directions from those of others."""
        return _along(steps, own, self._directions_of(name, own, steps.dtype))

    @functools.cached_property
    def _directions_of(self) -> Callable[[int | str, torch.Tensor, torch.dtype], torch.Tensor]:
        """The directions that a tensor is moved along, by a name: made once, for the call is made again and again."""
        return functools.cache(lambda name, own, dtype: _directions(own, dtype, self.directions, name))

    def in_group(self, group: Any) -> GroupCall:
        """The call as a function of :meth:`samples`, in a process group."""

        def run(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            return self.called([self._converted(at, given) for at, given in enumerate(tensors)], group)

        def gradients(tensors: Sequence[torch.Tensor], cotangents: Cotangents) -> list[torch.Tensor | None]:
            return self._declared(tensors, cotangents, group)

        return DeclaredGroupCall(run, gradients) if self.is_declared else run

    @property
    def is_declared(self) -> bool:
        """Whether its gradients are those that the subject declares, and no derivatives."""
        return self.subject.gradient_kind == "declared"

    def _declared(
        self, tensors: Sequence[torch.Tensor], cotangents: Cotangents, group: Any
    ) -> list[torch.Tensor | None]:
        """Call the formula on this rank, for :meth:`samples` and the cotangents of the results.

        Raises:
            Skipped: it raises, or returns a value that is not a gradient of an argument.
        """
        assert self.subject.formula is not None
        given = [x.detach().requires_grad_(own.requires_grad) for x, own in zip(tensors, self.tensors, strict=True)]
        exact = [self._converted(at, x) for at, x in enumerate(given)]
        values = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in exact]
        args = self._arguments(values, group)
        said = asked(self.subject.formula, args, tuple(None if g is None else g.clone() for g in cotangents))
        found: list[torch.Tensor | None] = [None] * len(given)
        for index, arg in enumerate(args):
            for at, tensor in enumerate(values):
                if tensor is arg and exact[at].requires_grad:  # autograd does not look into containers
                    gradient = _gradient(said[index] if index < len(said) else None, exact[at], f"argument {at}")
                    (found[at],) = torch.autograd.grad(exact[at], given[at], gradient)
        return found

    def _arguments(self, tensors: Sequence[torch.Tensor], group: Any) -> tuple[Any, ...]:
        """The arguments in a group, with other tensors."""
        if self.fewer and dist.get_rank(group) % 2:
            tensors = [one_fewer(x) if at in self.fewer else x for at, x in enumerate(tensors)]
        values = {**dict(enumerate(self.values)), **dict(zip(self.places, tensors, strict=True))}
        return placed(tuple(pytree.tree_unflatten(list(values.values()), self.structure)), group)

    def called(self, tensors: Sequence[torch.Tensor], group: Any) -> list[torch.Tensor]:
        """Call the subject with other tensors; the tensors of its result."""
        args = self._arguments(tensors, group)
        seeds.seed(0)
        return tensor_leaves(self.subject(*args))

    def as_called(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The tensors that a call in a group is made with, without a graph."""
        return [self._converted(at, given).detach() for at, given in enumerate(tensors)]

    def _converted(self, at: int, given: torch.Tensor) -> torch.Tensor:
        own = self.tensors[at]
        if not differentiable(own):
            return (own if at in self.uneven else given).clone()
        moved = _along(given, own, self._directions_of(at, own, given.dtype)) if self._is_moved_along(at) else given
        # A copy: a Function may change what it is given.
        return moved.to(self._dtype(own), copy=True)


def jvp_of(run: GroupCall, values: Sequence[torch.Tensor], moving: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
    """Compute the tangent of every result on this rank, zeros if it has none, given tangents of some arguments."""
    plain = [value.detach() for value in values]
    with fwd.dual_level():
        duals = [fwd.make_dual(value, moving[at]) if at in moving else value for at, value in enumerate(plain)]
        parts = [fwd.unpack_dual(result) for result in run(duals)]
        return [torch.zeros_like(y) if tangent is None else tangent.detach().clone() for y, tangent in parts]


def _gradient(said: Any, tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Return a formula's gradient of a tensor, zeros if it is None; the test is skipped if it has another shape."""
    found = torch.zeros_like(tensor) if said is None else said
    if not isinstance(found, torch.Tensor) or found.shape != tensor.shape:
        raise Skipped(f"its formula gives {shown(said)} for {name}, which has the shape {tuple(tensor.shape)}")
    return found.detach().to(tensor.dtype)


def _is_untied(value: Any) -> bool:
    """Whether a value would mean the same next to longer tensors."""
    if isinstance(value, torch.Tensor):
        return differentiable(value) and is_strided(value)
    is_small = isinstance(value, int) and value in (0, 1)
    return value is None or value is GROUP or is_small or isinstance(value, (float, str))


def _cut(tensor: torch.Tensor, size: int, new: int) -> torch.Tensor:
    found = tensor.detach()
    for dim in (dim for dim, own in enumerate(tensor.shape) if own == size):
        found = found.narrow(dim, 0, new)
    return found.clone().requires_grad_(tensor.requires_grad)


def _repeated(tensor: torch.Tensor, times: int) -> torch.Tensor:
    """The rows over and over again, each time a little smaller, so that no two are equal and most bounds hold."""
    parts = [tensor.detach() * (1 - 0.5 * at / times) for at in range(times)]
    return torch.cat(parts).to(tensor.dtype).requires_grad_(tensor.requires_grad)


def _along(steps: torch.Tensor, own: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
    return own.detach().to(steps.dtype) + (directions @ steps).reshape(own.shape)


def _directions(like: torch.Tensor, dtype: torch.dtype, count: int, name: int | str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(crc32(str(name).encode()))
    drawn = torch.randn(like.numel(), count, dtype=dtype, generator=generator, device="cpu")
    size = like.detach().abs().double().square().mean().sqrt().clamp_min(1e-12)
    return (drawn * size.cpu()).to(like.device)


def tensor_calls(subject: Subject, world: World) -> list[TensorCall]:
    """Every sample of a subject, the same on every rank, unless its inputs ask for the rank."""
    found = [TensorCall.of(subject, sample) for sample in subject.examples(world)]
    told = world.exchange([[fingerprint(tensor) for tensor in call.tensors] for call in found])
    return [with_own(call, ranks) for call, *ranks in zip(found, *told, strict=True)]


def with_own(call: TensorCall, ranks: Sequence[Sequence[Sequence[object]]]) -> TensorCall:
    """Return the call with a note of which tensors are each rank's own, from the fingerprints of all ranks."""
    uneven, shapes = differing_places(ranks), differing_places([[told[0] for told in rank] for rank in ranks])
    return replace(call, uneven=uneven, counts=uneven - shapes)
