"""One sample, ready to be called in any variation: what a test body gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import torch

from conformance.kit import expect, tolerances
from conformance.kit.calls import Gradients, Run, SampleCall
from conformance.kit.deviations import Deviation, NotApplicable
from conformance.kit.numerics.gradient_checks import gradients_of
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.unwritten import UNWRITTEN, unwritten_in
from conformance.kit.variations.axis import AS_GIVEN, MEANING, Variation
from conformance.kit.variations.variants import draws, draws_by_any_seed, worst_error
from conformance.kit.varied_call import Observed, Refused, VariedCall
from conformance.kit.world import World

__all__ = ["WRITES_INTO_GRADIENTS", "Probe"]

_Result = TypeVar("_Result")

CHANGING = "two equal calls give different gradients, so different calls cannot be compared"
#: Why what follows from incoming gradients is not judged.
WRITES_INTO_GRADIENTS = "it writes into the incoming gradients; see Function.backward.grads-untouched"


class Once(Generic[_Result]):
    """A property that is computed once for each object.

    ``functools.cached_property`` of Python 3.11 has one lock for all objects. Simulated ranks are threads: one would
    hold it in a collective that the others never enter, because they wait for the lock.
    """

    def __init__(self, find: Callable[[Any], _Result]) -> None:
        """Store the function that computes it."""
        self.find = find
        self.__doc__ = find.__doc__

    def __get__(self, owner: Any, kind: type) -> _Result:
        """Compute it, or return the stored value."""
        known = vars(owner)  # where Python looks first from now on
        name = self.find.__name__
        if name not in known:
            known[name] = self.find(owner)
        found: _Result = known[name]
        return found


@dataclass(frozen=True)
class Probe:
    """A sample of a subject that a test body calls in any variation.

    >>> from conformance.kit.sample_calls import every_sample
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

    @Once
    def epsilon_inside(self) -> float:
        """The machine epsilon that the plain call uses internally, if its dtypes promise a finer one; otherwise 0."""
        return working_epsilon(self.sample, self.world)

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
        """Whether results or gradients depend on random numbers; of a given sample, found out once for all tests."""
        if self.sample.is_derived:
            return draws(self.sample, self.world)
        return self.world.once(("draws", self.sample.label), lambda: draws(self.sample, self.world))

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
            self._known[key] = sample and Probe(self.world, replace(sample, label=self.label, is_derived=True))
        there: Probe | None = self._known[key]
        if there is None:
            raise Refused(f"{self.label} has no other {Variation(meaning)}")
        return replace(there, explains=True) if self.explains else there

    def go(self, variation: Variation = AS_GIVEN, step: Sequence[int] = ()) -> Observed:
        """Call forward and backward in a variation of the sample.

        Args:
            variation: how the call differs from the plain one.
            step: the arguments that change between forward and backward, as parameters do by an optimizer.

        Raises:
            Refused: forward does not take it.
            Exception: backward raised it.
        """
        return VariedCall(self.at(variation).sample, self.world, variation).observed(step)

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
            there._known[key] = VariedCall(there.sample, self.world, numbers, plainly=True).observed()
        found: Observed = there._known[key]
        return found
