"""One sample, ready to be called in any variation: what a test body gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

from conformance.kit import expect, seeds
from conformance.kit.calls import BACKWARD_SEED, Run, SampleCall
from conformance.kit.copies import argument_copy, in_layout_of
from conformance.kit.deviations import Deviation, NotApplicable, need
from conformance.kit.frames import told
from conformance.kit.gradients import Gradients, leaf_gradients
from conformance.kit.lent import Lent
from conformance.kit.numerics import tolerances
from conformance.kit.numerics.gradient_checks import gradients_of
from conformance.kit.once import Once
from conformance.kit.tensors import dense, differentiable, freed
from conformance.kit.unwritten import UNWRITTEN, unwritten_in
from conformance.kit.variations.axes_of_representation import ones
from conformance.kit.variations.axis import AS_GIVEN, MEANING, WHOLE, Variation
from conformance.kit.variations.layouts import in_other_layout
from conformance.kit.variations.variants import draws, draws_by_any_seed, worst_error
from conformance.kit.world import World

__all__ = ["WRITES_INTO_GRADIENTS", "Observed", "Probe", "Refused"]

_Result = TypeVar("_Result")

CHANGING = "two equal calls give different gradients, so different calls cannot be compared"
#: Why what follows from incoming gradients is not judged.
WRITES_INTO_GRADIENTS = "it writes into the incoming gradients; see Function.backward.grads-untouched"


class Refused(NotApplicable):
    """Forward does not take the call in this variation: nothing is judged there.

    >>> raise Refused("sample 0 has no other size")
    Traceback (most recent call last):
    conformance.kit.probe.Refused: sample 0 has no other size
    """


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


@dataclass(frozen=True)
class Probe:
    """A sample of a subject that a test body calls in any variation.

    >>> from conformance.kit.calls import every_sample
    >>> from conformance.kit.subject import Subject
    >>> subject = Subject(torch.mul, inputs=lambda: [(torch.ones(2, requires_grad=True), 3.0)])
    >>> probe = Probe(World(), every_sample(subject, World())[0])
    >>> probe.plain.results, list(probe.plain.gradients)
    ((tensor([3., 3.]),), [0])
    """

    world: World
    sample: SampleCall
    #: Whether to look for the cause of what is wrong: once what failed is known to fail.
    explains: bool = False
    #: What was called already: the plain calls, and the samples of another meaning.
    _known: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def label(self) -> str:
        """Return the sample's name for messages."""
        return self.sample.label

    def name(self, at: int) -> str:
        """Return an input's name for messages: ``input 1 of sample 0``.

        Args:
            at: its index among all values of the sample.
        """
        return self.sample.name(at)

    @Once
    def plain(self) -> Observed:
        """The call as it is given."""
        return self.go(AS_GIVEN)

    @Once
    def _differentiated(self) -> tuple[Run, list[torch.Tensor], list[torch.Tensor]]:
        run = self.sample.run()
        cotangents = run.cotangents(self.world)
        return run, cotangents, run.filled(run.gradients(cotangents))

    @property
    def run(self) -> Run:
        """The plain call, made once and differentiated once."""
        return self._differentiated[0]

    @property
    def cotangents(self) -> list[torch.Tensor]:
        """The incoming gradients of the plain call."""
        return self._differentiated[1]

    @property
    def gradients(self) -> list[torch.Tensor]:
        """The gradients of the plain call, zeros if there is none."""
        return self._differentiated[2]

    def unless_refused(self, why: str, call: Callable[..., _Result | None], *args: Any, **options: Any) -> _Result:
        """Return the result of a call that all ranks make.

        Args:
            why: why nothing is judged if the call is refused.
            call: the call.
            *args: its arguments.
            **options: its keyword arguments.

        Raises:
            NotApplicable: on a rank it raises, or returns None.
        """
        found = self.world.try_call(call, *args, **options)
        if found is None:
            raise NotApplicable(why)
        return found

    def expect_gradients(self, gradients: Gradients, how: str, **options: Any) -> None:
        """Compare the gradients of a call made otherwise with those of the plain one.

        Args:
            gradients: of its leaves, None for zeros.
            how: how it was made, for the message.
            **options: tolerances, as for :func:`conformance.kit.expect.close`.

        Raises:
            Deviation: they differ.
            NotApplicable: they differ, and those of equal calls do too.
        """
        with self.unless_noisy():
            for at, one, other in zip(self.run.leaves, self.run.filled(gradients), self.gradients, strict=True):
                expect.close(one, other, f"gradient of {self.name(at)} {how}, compared with the plain call,", **options)

    @contextmanager
    def unless_noisy(self) -> Iterator[None]:
        """Compare the gradients of two calls inside.

        Raises:
            NotApplicable: they differ, and those of equal calls do too, which Function.forward.deterministic and
                Function.forward.calls-independent judge.
        """
        try:
            yield
        except Deviation as deviation:
            unwritten = unwritten_in(self.sample, self.world) and UNWRITTEN
            if why := CHANGING if self.world.size == 1 and self._changes() else unwritten:
                raise NotApplicable(why) from deviation
            raise

    def _changes(self) -> bool:
        try:
            one, other = (gradients_of(self.sample, self.cotangents) for _ in range(2))
        except Exception:  # what was inside has met it as well
            return False
        return worst_error(one, other)[0] > tolerances.SAME

    @Once
    def draws(self) -> bool:
        """Whether results or gradients depend on random numbers."""
        return draws(self.sample, self.world)

    @Once
    def draws_anything(self) -> bool:
        """Whether a call draws random numbers, from a seed of its own too."""
        return self.draws or draws_by_any_seed(self.sample, self.world)

    def at(self, variation: Variation) -> Probe:
        """Return the sample that a variation's choices of meaning give: other sizes, numbers, flags.

        Args:
            variation: a choice on each of some axes; see ``conformance.kit.variations``.

        Raises:
            Refused: it cannot be made of this sample, or forward does not take it.
        """
        meaning = variation.of(*MEANING)
        if not meaning:
            return self
        key = f"at {Variation(meaning)}"
        if key not in self._known:
            sample: SampleCall | None = self.sample
            for pick in meaning:
                sample = pick.value(sample) if sample else None
            self._known[key] = Probe(self.world, sample) if sample else None
        there: Probe | None = self._known[key]
        if there is None:
            raise Refused(f"{self.label} has no other {Variation(meaning)}")
        return replace(there, explains=True) if self.explains else there

    def go(self, variation: Variation = AS_GIVEN, step: bool = False) -> Observed:
        """Call forward and backward in a variation of the sample.

        Args:
            variation: how the call differs from the plain one.
            step: whether parameters change between forward and backward, as by an optimizer.

        Raises:
            Refused: forward does not take it.
            Exception: backward raised it.
        """
        return _Going(self.at(variation).sample, self.world, variation).observed(step)

    def sample_of(self, variation: Variation) -> SampleCall:
        """Return the sample of another meaning, laid out otherwise, or with other inputs that need a gradient.

        Args:
            variation: how it differs from the sample as given.
        """
        sample = self.at(variation).sample
        laid = {pick.at: pick.value(sample.values[pick.at].detach()) for pick in variation.of("layout")}
        needed = variation.of("needs")
        return replace(sample.having(laid), active=needed[0].value if needed else sample.active)

    def equal_call(self, variation: Variation) -> Observed:
        """Make the plain call with the numbers of a variation: the expected outcome of the varied call.

        Outputs left out count with zeros, inputs in a lower precision by rounded numbers; all inputs need a gradient.

        Args:
            variation: how the varied call differs from the plain one.
        """
        there = self.at(variation)
        numbers = Variation(variation.of("dtype", "used", "gradient form", "gradient layout"))
        key = f"equal {numbers}"
        if key not in there._known:
            there._known[key] = _Going(there.sample, self.world, numbers, plainly=True).observed(step=False)
        found: Observed = there._known[key]
        return found


class _Going:
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

    def observed(self, step: bool) -> Observed:
        leaves: dict[int, torch.Tensor] = {}
        args = [self._argument(at, value, leaves) for at, value in enumerate(self.sample.values)]
        lent = Lent(self.sample, args)
        seeds.seed(0, self.sample.holders)
        given = tuple(pytree.tree_unflatten(args, self.sample.structure))
        try:
            result = self.world.together(lambda: self.sample.subject(*given))
        except (Deviation, NotApplicable):
            raise
        except Exception as error:
            raise Refused(f"{self.sample.label}, {self.variation}: {told(error)}") from error
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        need(not any(map(freed, tensors)), "a result has lost its memory")
        results = tuple(tensor.detach().clone() for tensor in tensors)
        lent.after_forward(given, tensors)
        places = tuple(at for at, one in enumerate(tensors) if one.requires_grad and differentiable(one))
        for at in self.parameters if step else ():
            if not freed(args[at]):
                with torch.no_grad():
                    args[at].mul_(1.5)
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
        with self.sample.subject.asking_for_its_group():
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
