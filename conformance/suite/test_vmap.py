"""``vmap``: what the static method returns, and that a batch gives the results of its samples."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from conformance.kit import Deviation, Subject, World, cases, clause, expect, need, same_values
from conformance.kit.recording import Noted, recording
from conformance.kit.variations.batches import BATCH_SIZE, Batch, batches, choices, expect_batch, given_whole, variants
from conformance.kit.variations.batches import batch as make
from conformance.kit.variations.randomness import (
    SEEDS,
    batches_of_the_same,
    follows_its_values,
    results_of,
    same_results,
    samples_are_alike,
    with_another_last_sample,
)
from conformance.kit.variations.transforms import Tensors, call_with, outputs
from conformance.kit.variations.ways import works_in_place

NO_RULE = "it has neither vmap nor generate_vmap_rule"
#: The effect of each option for randomness on equal samples.
DRAWN = {
    "error": "an error, or no random numbers",
    "same": "the same for every sample",
    "different": "different random numbers for every sample",
}
_UNREACHED = "the call does not reach vmap of the class under test"
OUT_DIMS = "out_dims is nested like the output: one entry for each"


@clause("Function.vmap.not-both")
def test_own_rule_or_generated_one(subject: Subject) -> None:
    """A class with a vmap of its own does not ask for a generated rule as well."""
    need(subject.function is not None, "a plain callable, not a class")
    need(subject.defines("vmap") or subject.generates_vmap, NO_RULE)
    expect.that(
        not (subject.defines("vmap") and subject.generates_vmap),
        "vmap is overridden, so generate_vmap_rule is not set",
        "generate_vmap_rule = True and a vmap",
        "one of the two",
    )


@clause("Function.vmap.accepts")
def test_it_takes_the_arguments_of_forward(subject: Subject, world: World) -> None:
    """The static method accepts info, in_dims and the arguments of forward."""
    need(subject.defines("vmap"), "PyTorch generates its vmap rule" if subject.generates_vmap else NO_RULE)
    recorded, notes = recording(subject, "vmap")
    for batch in batches(recorded, world):
        world.try_call(batch.map, partial(outputs, batch.sample))
    for refused in notes.refused:
        raise refused.accusing("vmap", "info, in_dims, and one for each argument of forward")
    need(notes.of("vmap"), _UNREACHED)


@clause("Function.vmap.out-dims")
def test_returns_output_and_out_dims(subject: Subject, world: World) -> None:
    """The static method returns a pair, and out_dims has an entry for each output: its mapped dimension, or None."""
    need(subject.defines("vmap"), "PyTorch generates its vmap rule" if subject.generates_vmap else NO_RULE)
    recorded, notes = recording(subject, "vmap")
    error: Exception | None = None
    for batch in batches(recorded, world, any_out_dims=True):
        whole: list[int] = []
        try:
            whole = given_whole(batch)
        except Exception as raised:  # PyTorch refuses most of it: what was returned says it better
            error = error or raised
        expect.that(
            not whole,
            f"out_dims for output {whole and whole[0]} of {batch}",
            "None, which says that it is the same for every sample",
            f"the dimension of the output that counts the {len(batch.rows)} samples, such as 0",
        )
    for noted in notes.of("vmap"):
        _judge(noted)
    if error is not None:
        raise error
    need(notes.of("vmap"), _UNREACHED)


def _judge(noted: Noted) -> None:
    info, in_dims, *_ = noted.args
    pair = noted.returned
    given = f" (in_dims {in_dims})"
    is_pair = isinstance(pair, tuple) and len(pair) == 2
    expect.that(is_pair, f"vmap returns a pair{given}", _kind(pair), "(output, out_dims)")
    output, out_dims = pair
    if not isinstance(output, tuple):
        single = out_dims is None or isinstance(out_dims, int)
        expect.that(single, f"{OUT_DIMS}{given}", out_dims, "an int or None, for a single output")
        _fits(output, out_dims, info.batch_size, given)
        return
    same = isinstance(out_dims, tuple) and len(out_dims) == len(output)
    expect.that(same, f"{OUT_DIMS}{given}", out_dims, f"a tuple of {len(output)}")
    for part, dim in zip(output, out_dims, strict=True):
        expect.that(dim is None or isinstance(dim, int), f"each entry of out_dims{given}", dim, "an int or None")
        _fits(part, dim, info.batch_size, given)


def _fits(output: Any, dim: int | None, size: int, given: str) -> None:
    if dim is None or not isinstance(output, torch.Tensor):
        return
    inside = -output.dim() <= dim < output.dim()
    expect.that(inside, f"out_dim is a dimension of its output{given}", dim, f"below {output.dim()}")
    what = f"size of the output along its out_dim{given}, which is the number of samples"
    expect.that(output.shape[dim] == size, what, output.shape[dim], size)


def _kind(value: object) -> str:
    length = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{length}"


@clause("Function.vmap.inputs-untouched")
def test_a_batch_is_left_as_it_is(subject: Subject, world: World) -> None:
    """The tensors of a batch hold the same values after torch.vmap as before."""
    need(subject.defines("vmap"), "PyTorch generates its vmap rule" if subject.generates_vmap else NO_RULE)
    compared = 0
    for batch in batches(subject, world):
        need(not works_in_place(batch.sample, world), "it works in place")
        whole = batch.whole
        before = {at: value.clone() for at, value in whole.items()}
        if world.try_call(batch.map, partial(call_with, batch.sample), whole) is None:
            continue
        compared += 1
        for at, value in whole.items():
            what = f"{batch.sample.names[at]} of {batch}, after torch.vmap"
            expect.that(same_values(before[at], value), what, value, before[at])
    need(compared, "torch.vmap of it raises")


@clause("Function.vmap.batched")
def test_batch_equals_its_samples(subject: Subject, world: World) -> None:
    """For every choice of in_dims the outputs are those of the samples, called one by one."""
    found = [(batch, batch.map(partial(outputs, batch.sample)), _by_sample(batch)) for batch in batches(subject, world)]
    for batch, actual, expected in found:
        expect_batch(actual, expected, f"{batch}: output", batch.precision)


@clause("Function.vmap.batched")
def test_randomness_option_makes_no_difference(subject: Subject, world: World) -> None:
    """A Function that draws no random numbers gives the same under each option for randomness."""
    found = [
        (
            batch.map(partial(outputs, batch.sample), randomness=option),
            _by_sample(batch),
            f"{batch}, {option!r}: output",
            batch.precision,
        )
        for batch in batches(subject, world, few=True)
        for option in ("different", "same")
    ]
    for actual, expected, what, precision in found:
        expect_batch(actual, expected, what, precision)


@clause("Function.vmap.batched")
@cases(randomness=["error", "same", "different"])
def test_random_numbers_are_those_that_were_asked_for(subject: Subject, world: World, randomness: str) -> None:
    """Samples that are the same draw the same numbers, or each its own, or none, as the option for randomness says."""
    need(subject.defines("vmap"), "PyTorch generates its vmap rule" if subject.generates_vmap else NO_RULE)
    judged = 0
    for batch in batches_of_the_same(subject, world):
        tried = [
            world.try_call(batch.map, partial(outputs, batch.sample, seed=seed), randomness=randomness)
            for seed in SEEDS
        ]
        drawn = [results for results in tried if results is not None]
        raises = len(drawn) < len(tried)
        if raises and randomness != "error":
            continue  # no rule has to support it
        judged += 1
        if randomness == "error":
            wrong = not raises and not all(same_results(each, drawn[0]) for each in drawn)
        elif randomness == "same":
            wrong = not all(map(samples_are_alike, drawn))
        else:
            wrong = all(map(samples_are_alike, drawn))
        if wrong:
            what = f"first output of {batch}, {BATCH_SIZE} times the same sample with randomness={randomness!r}"
            raise Deviation(what, expect.shown(drawn[0][0]), DRAWN[randomness], "vmap ignores info.randomness")
    need(judged, "it draws no random numbers, or torch.vmap of it raises")


@clause("Function.vmap.batched")
@cases(randomness=["error", "same", "different"])
def test_random_samples_do_not_mix(subject: Subject, world: World, randomness: str) -> None:
    """Where a Function draws random numbers, the results of a sample follow its own values, and those of no other."""
    need(subject.defines("vmap"), "PyTorch generates its vmap rule" if subject.generates_vmap else NO_RULE)
    need(world.size == 1, "ranks may draw other numbers, and would not end their comparisons together")
    pairs = list(with_another_last_sample(subject, world))
    judged = [_expect_apart(one, other, world, randomness) for one, other in pairs]
    need(any(judged), "it draws no random numbers, or torch.vmap of it raises")


def _expect_apart(one: Batch, other: Batch, world: World, randomness: str) -> bool:
    """Compare two batches that differ in the last sample; tell whether they could be judged."""
    given, follows = f"of {one}, randomness={randomness!r}, with other values in the last sample", False
    for seed in SEEDS:
        found = [world.try_call(results_of, made, seed, randomness) for made in (one, other)]
        if found[0] is None or found[1] is None:
            return False  # no rule has to support it
        (before, drawn), (after, drawn_again) = found[0], found[1]
        if drawn != drawn_again:
            return False  # how much is drawn depends on the values
        for place, (then, now) in enumerate(zip(before, after, strict=True)):
            same = same_results((now[:-1],), (then[:-1],))
            expect.that(same, f"output {place} {given}: all samples but the last", now, then)
        if not same_results(before, after):
            return True
        follows |= follows_its_values(one, other, seed)
    expect.that(not follows, f"the last sample {given}", "the same as before", "other results, as by itself")
    return False


@clause("Function.vmap.batched")
def test_nested_batches_equal_their_samples(subject: Subject, world: World) -> None:
    """A vmap inside a vmap equals calling sample by sample."""
    found = []
    for outer, inner in _nested(subject, world):
        try:
            actual = outer.map(lambda values, inner=inner[0]: inner.map(partial(outputs, inner.sample), values))
        except NotImplementedError:  # these in_dims have no rule
            continue
        for place, row in enumerate(inner):
            what = f"{outer} outside and {row} inside: output"
            found.append(([whole[place] for whole in actual], _by_sample(row), what, outer.precision))
    need(found, "its vmap raises NotImplementedError for every batch of batches")
    for parts, expected, what, precision in found:
        expect_batch(parts, expected, what, precision)


def _nested(subject: Subject, world: World) -> Iterator[tuple[Batch, list[Batch]]]:
    """Batches of batches: the outer one's samples are the inner ones, each with values of its own."""
    samples = {id(batch.sample): batch for batch in batches(subject, world, few=True)}
    for sample, precision in ((batch.sample, batch.precision) for batch in samples.values()):
        every = choices(sample)
        values = variants(sample, 2 * BATCH_SIZE)
        for outer, inner in ((every[0], every[-1]), (every[-1], every[0]), (every[len(every) // 2], every[0])):
            rows = [
                [
                    {at: values[row * BATCH_SIZE * (at in outer) + column][at] for at in values[0]}
                    for column in range(BATCH_SIZE)
                ]
                for row in range(2)
            ]
            found = [make(sample, inner, row) for row in rows]
            yield Batch(sample, outer, tuple(batch.whole for batch in found), precision), found


def _by_sample(batch: Batch) -> list[Tensors]:
    return [outputs(batch.sample, values) for values in batch.rows]
