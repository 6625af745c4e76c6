"""A Function under torch.compile: the numbers of eager mode, in one graph."""

from __future__ import annotations

from dataclasses import replace

import torch

from conformance.kit import (
    Deviation,
    NotApplicable,
    Run,
    SampleCall,
    Subject,
    World,
    clause,
    differentiated,
    expect,
    need,
)
from conformance.kit.calls import Gradients
from conformance.kit.observation.compiled import UNSUPPORTED, compiled, compiling, explanation, place
from conformance.kit.observation.compiled_engine import is_wrong
from conformance.kit.variations.variants import draws, lengthened
from conformance.kit.variations.ways import works_in_place


@clause("Function.compile.agrees")
def test_compiled_it_gives_the_same(subject: Subject, world: World) -> str:
    """Compiled, it gives the results and gradients of eager mode, for a second shape too, or an error is raised."""
    compared, refused = 0, []
    with compiling():
        inside = compiled(subject)
        for sample in _steady(subject, world):
            right = sample.run()
            cotangents = right.cotangents(world)
            given = right.gradients(cotangents)
            found = world.try_call(_compiled, sample, inside, cotangents)
            if found is None:
                refused.append(sample.label)
                continue
            compared += 1
            try:
                _expect_as_in_eager_mode(*found, right, given)
            except Deviation:
                wrong = [call for call in _of_its_kind(sample) if is_wrong(world, call)]
                need(not wrong, f"PyTorch compiles such Functions wrongly: {', '.join(wrong)}")
                raise
    need(compared, "the compiler raises an error")
    return f"compiled, the call raises with {', '.join(refused)}" if refused else ""


def _compiled(sample: SampleCall, inside: Subject, cotangents: list[torch.Tensor]) -> tuple[Run, list[torch.Tensor]]:
    run = replace(sample, subject=inside).run()
    return run, run.filled(run.gradients(cotangents))


def _expect_as_in_eager_mode(run: Run, actual: list[torch.Tensor], right: Run, gradients: Gradients) -> None:
    sample = right.sample
    # Without any gradient, the compiler omits the graph.
    same_graph = run.places == right.places or all(gradient is None for gradient in gradients)
    expect.that(same_graph, f"outputs of {sample.label} with a graph, compiled", run.places, right.places)
    for index, (one, other) in enumerate(zip(run.tensors, right.tensors, strict=True)):
        expect.close(one, other, f"output {index} of {sample.label}, compiled, compared with eager mode,")
    for at, one, other in zip(run.leaves, actual, right.filled(gradients), strict=True):
        expect.close(one, other, f"gradient of {sample.name(at)}, compiled, compared with eager mode,")


def _of_its_kind(sample: SampleCall) -> list[str]:
    """What PyTorch itself must compile rightly before a class can be accused: see Function.compile.methods."""
    tensors = [id(value) for value in sample.values if isinstance(value, torch.Tensor)]
    return [
        "result",
        "gradient",
        *(["gradient of a class with an unused jvp"] if sample.subject.defines("jvp") else []),
        *(["gradient of one tensor given twice"] if len(set(tensors)) < len(tensors) else []),
    ]


def _steady(subject: Subject, world: World) -> list[SampleCall]:
    """Return the samples, and each with longer tensors if the subject accepts that."""
    found = []
    for sample, _ in differentiated(subject, world):
        if draws(sample, world) or works_in_place(sample, world):
            continue
        other = lengthened(sample, world)
        takes_it = other is not None and world.try_call(draws, other, world) is False
        found += [sample, other] if other is not None and takes_it else [sample]
    need(found, "it draws random numbers, or works in place, for which PyTorch itself loses gradients")
    return found


@clause("Function.compile.fullgraph")
def test_it_is_captured_whole(subject: Subject, world: World) -> None:
    """Compiled with fullgraph=True, forward and backward run, for a second shape too."""
    need(not subject.defines("__call__"), "its methods are those of an instance, which the compiler does not trace")
    need(world.size == 1, "checked on one rank only: the code is the same on all")
    with compiling():
        whole = compiled(subject, whole=True)
        for sample in _steady(subject, world):
            cotangents = sample.run().cotangents(world)
            try:
                _compiled(sample, whole, cotangents)
            except Exception as error:
                why, where = explanation(error), place(error)
                if why.startswith(UNSUPPORTED):
                    raise NotApplicable(why) from error
                raise Deviation(
                    f"compiling {sample.label} with fullgraph=True",
                    f"the compiler gives up at {where}: {why}" if where else f"the compiler gives up: {why}",
                    "one graph of forward and one of backward",
                ) from error
