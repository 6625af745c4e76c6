"""One call of a sample in a variation: its arguments, its incoming gradients, and what it did to what it was lent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit import seeds
from conformance.kit.calls import BACKWARD_SEED, SampleCall, ending, leaf_gradients
from conformance.kit.copies import argument_copy, in_layout_of
from conformance.kit.deviations import Deviation, NotApplicable, need
from conformance.kit.frames import told
from conformance.kit.tensors import dense, differentiable, freed, same_values, share_memory, tensor_leaves
from conformance.kit.variations.axes_of_representation import ones
from conformance.kit.variations.axis import WHOLE, Variation
from conformance.kit.variations.layouts import in_other_layout
from conformance.kit.world import World

__all__ = ["Observed", "Refused"]


class Refused(NotApplicable):
    """Forward does not take the call in this variation: nothing is judged there.

    >>> raise Refused("sample 0 has no other size")
    Traceback (most recent call last):
    conformance.kit.varied_call.Refused: sample 0 has no other size
    """


@contextmanager
def _stepped(parameters: Sequence[torch.Tensor]) -> Iterator[None]:
    """Change parameters in place, as a step of an optimizer does, for the block."""
    before = [one.detach().clone() for one in parameters]
    with torch.no_grad():
        for one in parameters:
            one.mul_(1.5)
    try:
        yield
    finally:
        with torch.no_grad():
            for one, old in zip(parameters, before, strict=True):
                one.copy_(old)


@dataclass(frozen=True)
class Observed:
    """Outcome of a call: copies of its results, places of the differentiable ones, gradients of the unscaled loss.

    >>> Observed(results=(torch.ones(1),), places=(0,), gradients={0: torch.ones(1)}).changes("argument")
    []
    """

    results: tuple[torch.Tensor, ...]
    places: tuple[int, ...]
    gradients: Mapping[int, torch.Tensor]
    #: What the call did to what it was lent by its caller, in words, by the kind of thing.
    changed: tuple[tuple[str, str], ...] = ()

    def changes(self, kind: str) -> list[str]:
        """Return what the call did to one kind of thing, in words.

        Args:
            kind: ``argument``, ``container``, ``gradient``, ``hook`` or ``memory``.
        """
        return [words for own, words in self.changed if own == kind]


class Lent:
    """What a call borrowed from its caller, and how it changed that."""

    def __init__(self, sample: SampleCall, args: Sequence[Any]) -> None:
        self.sample, self.args = sample, list(args)
        self.changed: list[tuple[str, str]] = []
        self.tensors = {at: arg for at, arg in enumerate(args) if isinstance(arg, torch.Tensor)}
        self.hooks = {at: _hooks(arg) for at, arg in self.tensors.items()}
        self._note()

    def _note(self) -> None:
        self.before = {at: arg.detach().clone() for at, arg in self.tensors.items() if not freed(arg)}
        self.versions = {at: arg._version for at, arg in self.tensors.items()}

    def after_forward(self, given: tuple[Any, ...], tensors: Sequence[torch.Tensor]) -> None:
        """Record arguments that are changed and not returned, replaced containers, and hooks."""
        self.given = given
        self._look_at_containers(given, "forward")
        results = {id(tensor) for tensor in tensors}
        for at, before in self.before.items():
            arg = self.tensors[at]
            is_written = arg._version != self.versions[at] or not same_values(before, arg)
            if is_written and id(arg) not in results and at not in self.sample.of_modules:
                self.changed.append(("argument", f"{self.sample.name(at)} is changed in place by forward"))
        self._note()

    def _look_at_containers(self, given: tuple[Any, ...], when: str) -> None:
        """Record a list or dictionary that has lost entries or has another order; a call may add entries."""
        values = pytree.tree_leaves(given)
        now, before = (
            [id(one) for one in leaves if isinstance(one, torch.Tensor | float)] for leaves in (values, self.args)
        )
        if len(values) < len(self.args) or (now != before and sorted(now) == sorted(before)):
            words = f"a list or dictionary of the caller's has lost entries, or has another order, after {when}"
            self.changed.append(("container", words))

    def after_backward(self, tensors: Sequence[torch.Tensor], found: Sequence[torch.Tensor | None]) -> None:
        """Record arguments that have other values or hooks, and results that share their memory."""
        if not self.changed:
            self._look_at_containers(self.given, "backward")
        for at, before in self.before.items():
            arg = self.tensors[at]
            if any(one._base is None and one is not arg and share_memory(one, arg) for one in tensors):
                words = f"a result shares memory with {self.sample.name(at)}, and autograd does not know"
                self.changed.append(("result", words))
            if not same_values(before, arg):
                self.changed.append(("values", f"{self.sample.name(at)} has other values after backward"))
            if _hooks(arg) > self.hooks[at]:
                self.changed.append(("hook", f"{self.sample.name(at)} has one more hook than before"))
            if any(one is not None and one.numel() and share_memory(one, arg) for one in found):
                words = f"a gradient shares memory with {self.sample.name(at)}: writing to one changes the other"
                self.changed.append(("memory", words))

    def incoming(self, before: Mapping[int, torch.Tensor], after: Mapping[int, torch.Tensor]) -> None:
        """Record the incoming gradients that backward changed."""
        changed = [at for at, one in after.items() if not same_values(before[at], one)]
        words = [f"the gradient of output {at} has other values after backward" for at in changed]
        self.changed += [("gradient", each) for each in words]


def _hooks(tensor: torch.Tensor) -> int:
    return sum(len(getattr(tensor, name, None) or ()) for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))


class VariedCall:
    """One call under way."""

    def __init__(self, sample: SampleCall, world: World, variation: Variation, plainly: bool = False) -> None:
        self.sample, self.world, self.variation, self.plainly = sample, world, variation, plainly
        self.layouts = {pick.at: pick.value for pick in variation.of("layout")}
        self.dtypes = {pick.at: pick.value for pick in variation.of("dtype")}
        self.parameters = {pick.at for pick in variation.of("parameter")}
        needs, used = variation.of("needs"), variation.of("used")
        self.needed = set(needs[0].value if needs else sample.active)
        self.used = used[0].value if used else None
        self.is_sum = any(pick.value is ones for pick in variation.of("gradient form"))
        scales = variation.of("gradient scale")
        self.scale: float = scales[0].value if scales else 1.0
        if self.dtypes or scales:
            self.sample = replace(sample, may_not_end=True)

    def observed(self, step: Sequence[int] = ()) -> Observed:
        leaves: dict[int, torch.Tensor] = {}
        args = [self._argument(at, value, leaves) for at, value in enumerate(self.sample.values)]
        lent = Lent(self.sample, args)
        seeds.seed(0, self.sample.holders)
        given = tuple(pytree.tree_unflatten(args, self.sample.structure))
        try:
            with ending(self.sample, "forward"):
                result = self.world.together(lambda: self.sample.subject(*given))
        except (Deviation, NotApplicable):
            raise
        except Exception as error:
            raise Refused(f"{self.sample.label}, {self.variation}: {told(error)}") from error
        tensors = tensor_leaves(result)
        need(not any(map(freed, tensors)), "a result has lost its memory")
        results = tuple(tensor.detach().clone() for tensor in tensors)
        lent.after_forward(given, tensors)
        places = tuple(at for at, one in enumerate(tensors) if one.requires_grad and differentiable(one))
        with _stepped([args[at] for at in step if not freed(args[at])]):
            gradients = self._gradients(tensors, places, leaves, lent)
        return Observed(results, places, gradients, tuple(lent.changed))

    def _argument(self, at: int, value: Any, leaves: dict[int, torch.Tensor]) -> Any:
        if not isinstance(value, torch.Tensor) or at in self.sample.of_modules:
            return value
        numbers = value.detach().clone() if at not in self.dtypes else value.detach().to(self.dtypes[at])
        if self.plainly:
            numbers = numbers.to(value.dtype)
        needed, leaf = at in self.needed and at in self.sample.active, numbers
        if at in self.parameters:
            leaf = torch.nn.Parameter(self.layouts.get(at, torch.clone)(numbers), needed)
        leaves |= {at: leaf.requires_grad_()} if needed else {}
        if at in self.parameters:
            return leaf
        if at in self.layouts:
            return in_other_layout(leaf, self.layouts[at])
        return argument_copy(value if leaf.dtype == value.dtype else leaf.detach(), leaf)

    def _gradients(
        self, tensors: Sequence[torch.Tensor], places: Sequence[int], leaves: dict[int, torch.Tensor], lent: Lent
    ) -> dict[int, torch.Tensor]:
        used = [at for at in places if self.plainly or self.used is None or at in self.used]
        given = dict(zip(used, self._cotangents([tensors[at] for at in used], used), strict=True))
        before = {at: cotangent.detach().clone() for at, cotangent in given.items()}
        outputs, inputs, cotangents = [tensors[at] for at in used], list(leaves.values()), list(given.values())
        seeds.seed(BACKWARD_SEED, self.sample.holders)
        with self.sample.subject.asking_for_its_group(), ending(self.sample, "backward"):
            found = self.world.together(
                lambda: leaf_gradients(outputs, inputs, cotangents) if used and leaves else (None,) * len(leaves)
            )
        lent.incoming(before, given)
        lent.after_backward(tensors, found)
        pairs = zip(leaves.items(), found, strict=True)
        filled = {at: torch.zeros_like(leaf) if one is None else one for (at, leaf), one in pairs}
        return {at: dense(one).detach().clone() / self.scale for at, one in filled.items()}

    def _cotangents(self, outputs: Sequence[torch.Tensor], places: Sequence[int]) -> Iterator[torch.Tensor]:
        """The incoming gradients: numbers first, then how they are laid out."""
        by_place = dict(zip(places, outputs, strict=True))
        used = {at: output for at, output in by_place.items() if self.used is None or at in self.used}
        numbers = dict(zip(used, self._numbers(used), strict=True))
        arranged = {pick.at: pick.value for pick in self.variation.of("gradient layout")}
        for at, output in by_place.items():
            cotangent = numbers[at] if at in numbers else torch.zeros_like(dense(output.detach()))
            arrange = arranged.get(at, arranged.get(WHOLE))
            laid = arrange(cotangent) if arrange else cotangent
            laid = laid.clone(memory_format=torch.contiguous_format) if self.plainly else laid
            yield in_layout_of(output, laid)

    def _numbers(self, outputs: Mapping[int, torch.Tensor]) -> Sequence[torch.Tensor]:
        """The incoming gradients of the outputs that are used."""
        rank, tensor = self.world.rank, self.world.tensor
        drawn = [tensor(rank, tuple(one.shape), one.dtype, "cotangent", at) for at, one in outputs.items()]
        if self.is_sum:
            drawn = ones(drawn)
        scaled: Sequence[torch.Tensor] = [cotangent * self.scale for cotangent in drawn]
        for pick in self.variation.of("gradient form") if scaled and not self.is_sum else ():
            scaled = pick.value(scaled)
        return scaled
