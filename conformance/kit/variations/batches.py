"""Compare what a Function returns for a batch, under :func:`torch.vmap`, with its samples one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from math import prod
from random import Random
from typing import Any

import torch

from conformance.kit import expect
from conformance.kit.calls import SampleCall
from conformance.kit.deviations import Deviation, need
from conformance.kit.frames import told
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.sample_calls import every_sample
from conformance.kit.subject import Subject
from conformance.kit.tensors import differentiable, largest_finite
from conformance.kit.variations.generated_rule import (
    LOSSES,
    NAMED,
    NO_DIRTY,
    with_mapped_outputs,
    with_plain_tuples,
    without_losses,
    without_nesting,
)
from conformance.kit.variations.meaning import meant
from conformance.kit.variations.transforms import call_with, draws_numbers, outputs, tensors
from conformance.kit.world import World

#: Samples in a batch.
BATCH_SIZE = 3
#: Choices of in_dims tried for one call, at most; and where every one of them costs more.
CHOICES, FEW_CHOICES = 14, 6

#: The ways in which a batch can be wrong.
NOT_IMPLEMENTED = "its vmap raises NotImplementedError"
NO_OUT_DIM = "out_dims has None in place of a dimension; see Function.vmap.out-dims"

#: The mapped dimension of each mapped tensor, by the tensor's position.
InDims = Mapping[int, int]
Values = Mapping[int, torch.Tensor]


@dataclass(frozen=True)
class Batch:
    """Samples mapped in one call. ``rows`` has the tensors of each; tensors that are not mapped are the same in all."""

    sample: SampleCall
    in_dims: InDims
    rows: tuple[Values, ...]
    #: The machine epsilon that a call works in inside, where its dtypes promise a finer one.
    precision: float = 0.0

    @property
    def whole(self) -> dict[int, torch.Tensor]:
        """Stack the mapped tensors for one call."""
        mapped = {at: torch.stack([values[at] for values in self.rows], dim) for at, dim in self.in_dims.items()}
        return {**self.rows[0], **mapped}

    def map(
        self,
        function: Callable[..., Any],
        whole: Values | None = None,
        extra: Sequence[torch.Tensor] = (),
        randomness: str = "error",
    ) -> Any:
        """Run ``function`` under torch.vmap, with the tensors of one sample by position, and its part of ``extra``.

        ``whole`` replaces :attr:`whole`, for example by leaves of a graph; ``extra`` is mapped along its first
        dimension.
        """
        values = self.whole if whole is None else whole

        def one(*given: torch.Tensor) -> Any:
            mapped = dict(zip(self.in_dims, given, strict=False))
            return function({**values, **mapped}, *given[len(mapped) :])

        in_dims = (*self.in_dims.values(), *(0 for _ in extra))
        mapped = (values[at] for at in self.in_dims)
        return torch.vmap(one, in_dims=in_dims, randomness=randomness)(*mapped, *extra)

    def __str__(self) -> str:
        dims = ", ".join(str(self.in_dims.get(at)) for at in tensors(self.sample))
        return f"{self.sample.label} with in_dims ({dims})"


def batches(subject: Subject, world: World, few: bool = False, any_out_dims: bool = False) -> Iterator[Batch]:
    """Make batches over different in_dims for every sample, except those for which the class raises.

    There are a ``few`` in_dims, or many; with ``any_out_dims`` also if out_dims declare a mapped output as not mapped.

    Raises:
        NotApplicable: the class does not support torch.vmap, or nothing can be compared.
    """
    found = batched_samples(subject, world)
    need(not any(map(draws_numbers, found)), "it draws random numbers: no two calls are equal")
    need(not (subject.generates_vmap and any(map(_changed, found))), NO_DIRTY)
    is_taken = False
    for number, sample in enumerate(found):
        values = variants(sample)
        every = choices(sample)
        step = max(1, len(every) // FEW_CHOICES) if few else 1
        precision = working_epsilon(sample, world)
        if every and subject.generates_vmap and world.size == 1:
            _expect_tuples(batch(sample, every[0], values))
        for in_dims in islice(every, 0, None, step):
            made = replace(batch(sample, in_dims, values), precision=precision)
            ended = _tried(number, made, world) if subject.defines("vmap") else ""
            need(ended != NO_OUT_DIM or any_out_dims, NO_OUT_DIM)
            if ended != NOT_IMPLEMENTED:
                is_taken = True
                yield made
    need(is_taken, "its vmap raises NotImplementedError for every in_dims")


def _tried(number: int, made: Batch, world: World) -> str:
    """Describe the error of a batch on any rank: no rule for it, which is allowed, or samples get the whole batch."""

    def tried() -> str:
        try:
            return NO_OUT_DIM if given_whole(made) else ""
        except NotImplementedError:
            return NOT_IMPLEMENTED
        except Exception:  # a test will meet it
            return ""

    key = ("tried under vmap", number, tuple(made.in_dims.items()))
    found: list[str] = world.once(key, lambda: world.exchange(tried()))
    return max(found, key=("", NO_OUT_DIM, NOT_IMPLEMENTED).index)


def given_whole(made: Batch) -> list[int]:
    """Return the outputs of a batch in which every sample receives all samples, as if tensors were not mapped."""
    found = made.map(partial(outputs, made.sample))
    pairs = zip(found, outputs(made.sample, made.rows[0]), strict=False)
    twice = (len(made.rows), len(made.rows))
    return [at for at, (one, row) in enumerate(pairs) if sorted(one.shape) == sorted((*row.shape, *twice))]


def batched_samples(subject: Subject, world: World) -> list[SampleCall]:
    """Return the samples to make batches of.

    Raises:
        NotApplicable: the class does not support torch.vmap, or no sample has a tensor.
    """
    need(subject.function is not None, "a plain callable, perhaps not made for torch.vmap")
    need(subject.separate, "the combined form does not work under torch.vmap: override setup_context")
    need(subject.defines("vmap") or subject.generates_vmap, "it has neither vmap nor generate_vmap_rule")
    found = [sample for sample in every_sample(subject, world) if tensors(sample)]
    need(found, "no sample has a tensor")
    return found


def _expect_tuples(first: Batch) -> None:
    """Assert that a batch does not raise merely because of the kind of tuple that forward returns."""
    try:
        first.map(partial(outputs, first.sample))
    except Exception as error:
        sample = replace(first.sample, subject=with_plain_tuples(first.sample.subject))
        try:
            first.map(partial(outputs, sample))
        except Exception:  # it is refused for another reason, which a test will meet
            return
        raise Deviation(str(first), told(error), "the results of its samples", NAMED) from error


def batch(sample: SampleCall, in_dims: InDims, values: Sequence[Values]) -> Batch:
    """Make a batch whose samples have their own values in mapped inputs."""
    rows = ({at: (own if at in in_dims else values[0])[at] for at in own} for own in values)
    return Batch(sample, in_dims, tuple(rows))


def choices(sample: SampleCall) -> list[InDims]:
    """Choose in_dims to try: all or, if these are too many, some, with every dimension of every tensor."""
    changed = _changed(sample)
    options = {at: [*range(x.dim() + 1), *([] if at in changed else [None])] for at, x in tensors(sample).items()}
    every = list(options.values())
    if prod(map(len, every)) <= CHOICES + 1:
        chosen = list(product(*every))
    else:
        draw, longest = Random(0).choice, max(map(len, every))
        chosen = [tuple(option[turn % len(option)] for option in every) for turn in range(longest)]
        chosen += [tuple(map(draw, every)) for _ in range(CHOICES - longest)]
        # And each tensor alone without a batch dimension, which is its last option.
        chosen += [tuple(option[-1 if option is one else 0] for option in every) for one in every]
    pairs = [zip(options, dims, strict=True) for dims in dict.fromkeys(chosen)]
    return list(filter(None, ({at: dim for at, dim in each if dim is not None} for each in pairs)))


def _changed(sample: SampleCall) -> set[int]:
    """Return the tensors that the call changes in place: those that must be mapped, or PyTorch raises."""
    given = {at: tensor.clone() for at, tensor in tensors(sample).items()}
    call_with(sample, given)
    return {at for at, tensor in given.items() if tensor._version}


def variants(sample: SampleCall, count: int = BATCH_SIZE) -> list[dict[int, torch.Tensor]]:
    """Make values for the samples of a batch: the sample's own, then others that the subject should accept.

    Numbers are scaled down, which keeps signs, order and most bounds; integers are permuted, or unchanged if the
    subject raises, or if their meaning would change.
    """
    plain = tensors(sample)

    def varied(index: int, rolls: bool) -> dict[int, torch.Tensor]:
        ways = {
            at: [x * (1 - 0.15 * index), x] if differentiable(x) else [x.flatten().roll(index * rolls).view(x.shape), x]
            for at, x in plain.items()
        }
        return tensors(meant(sample, ways) or sample)

    scaled, rolled = ([varied(index, rolls) for index in range(count)] for rolls in (False, True))
    try:
        for values in rolled:
            outputs(sample, values)
    except Exception:  # an index out of order may be a wrong argument
        return scaled
    return rolled


@dataclass(frozen=True)
class BatchComparison:
    """How to compute a result of a batch, and its expected value sample by sample."""

    batch: Batch
    compute: Callable[[Batch], Sequence[torch.Tensor]]
    expected: Sequence[Sequence[torch.Tensor]]
    what: str

    def attempt(self) -> Sequence[torch.Tensor] | None:
        """Compute the result of a batch; None if only the losses of PyTorch's generated rule make it raise."""
        try:
            return self.compute(self.batch)
        except Exception:
            if self._is_right_without_losses():
                return None
            raise

    def judge(self, actual: Sequence[torch.Tensor]) -> None:
        """Assert that the batch agrees with its samples; report whether only the generated rule is to blame."""
        try:
            expect_batch(actual, self.expected, self.what, self.batch.precision)
        except Deviation as deviation:
            deviation.likely = LOSSES if self._is_right_without_losses() else deviation.likely
            raise

    def _is_right_without_losses(self) -> bool:
        subject = self.batch.sample.subject
        more = with_mapped_outputs(without_nesting(subject))
        return any(map(self._is_right_with, filter(None, map(without_losses, (subject, more)))))

    def _is_right_with(self, spared: Subject) -> bool:
        batch = replace(self.batch, sample=replace(self.batch.sample, subject=spared))
        try:
            expect_batch(self.compute(batch), self.expected, self.what, batch.precision)
        except Exception:
            return False
        return True


def expect_batches(comparisons: Sequence[BatchComparison]) -> None:
    """Assert that batches equal their samples, except those that PyTorch's generated rule cannot compute."""
    found = [(comparison, comparison.attempt()) for comparison in comparisons]
    for comparison, actual in found:
        if actual is not None:
            comparison.judge(actual)
    need(all(actual is not None for _, actual in found), LOSSES)


def expect_batch(
    actual: Sequence[torch.Tensor], expected: Sequence[Sequence[torch.Tensor]], what: str, precision: float
) -> None:
    """Assert that each batched tensor has the values of the samples, one by one."""
    expect.that(len(actual) == len(expected[0]), f"{what}: how many tensors", len(actual), len(expected[0]))
    for place, whole in enumerate(actual):
        right = torch.stack([sample[place] for sample in expected])
        # A batch may be added up in another order than a sample.
        near = float(torch.finfo(right.dtype).eps ** 0.6) if differentiable(right) else 0.0
        largest = largest_finite(right) if near else 0.0
        expect.close(
            whole,
            right,
            f"{what} {place}" if len(actual) > 1 else what,
            rtol=near,
            atol=near * (1 + largest),
            precision=precision,
            alternatives={"every sample got the values of sample 0": right[:1].expand_as(right)},
        )
