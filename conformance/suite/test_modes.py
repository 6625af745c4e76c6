"""Other ways to run a Function: without gradients, with a graph of them, in another thread, with None or zeros."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

from conformance.kit import Deviation, Probe, Subject, World, clause, every_sample, expect, need
from conformance.kit.frames import told
from conformance.kit.observation.looks import look_at, steps
from conformance.kit.observation.witness import witnessing
from conformance.kit.variations.ways import under


@clause("Function.backward.undefined")
def test_none_for_every_output_is_handled(probe: Probe) -> None:
    """If gradients are not materialized, None for every output gives None or zeros for every input."""
    looks = look_at(probe.sample.subject, probe.world)
    functions = {call.function for look in looks for call in look.witness.calls}
    declining = {call.function for _, call, step in steps(looks, "set_materialize_grads") if step.given is False}
    need(declining, "its gradients are materialized: backward never receives None for a tensor")
    run = probe.sample.run()
    ends = [_NoGradient.apply(output) for output in run.outputs]
    with witnessing(*functions) as witness:
        try:
            actual = run.gradients_of(ends, [torch.ones_like(end) for end in ends])
        except Exception as error:
            others = {call.function for call in witness.calls if call.failed} - declining
            names = ", ".join(sorted(function.__name__ for function in others))
            need(not others, f"{names} beside it fails for the zeros that replace None")
            what, cause = f"gradients of {probe.label} with None for every output", _computes_with_none(probe)
            raise Deviation(what, told(error), "None or zeros", cause) from error
    for at, gradient in zip(run.leaves, actual, strict=True):
        zero = gradient is None or not bool(gradient.any())
        expect.that(zero, f"gradient of {probe.name(at)} with None for every output", gradient, "None or zeros")


def _computes_with_none(probe: Probe) -> str:
    """Name the cause, if zeros in place of None do no harm."""
    if probe.world.size > 1:  # a call more on one rank would wait for the others
        return ""
    run = probe.sample.run()
    try:
        run.gradients([torch.zeros_like(output) for output in run.outputs])
    except Exception:
        return ""
    return "backward computes with None"


class _NoGradient(torch.autograd.Function):
    """The identity, without a gradient."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> None:
        return None


@clause("Function.backward.zero")
def test_zeros_give_zeros(probe: Probe) -> None:
    """Incoming gradients of zeros give zeros wherever other incoming gradients give finite numbers."""
    need(probe.sample.subject.gradient_kind != "declared", "its gradient is a declared one, which may not be linear")
    zeros, run = [torch.zeros_like(cotangent) for cotangent in probe.cotangents], probe.sample.run()
    with expect.no_error(f"gradients of {probe.label}, incoming gradients zero", "zeros"):
        actual = run.filled(run.gradients(zeros))
    with probe.unless_noisy():
        for at, gradient, usual in zip(run.leaves, actual, probe.gradients, strict=True):
            there = usual.isfinite()  # where the derivative is infinite, zero times it is no number
            least = float(usual[there].abs().max()) if bool(there.any()) else 0.0
            finite = bool(gradient[there].isfinite().all())
            expect.close(
                torch.where(there, gradient, 0),
                torch.zeros_like(usual),
                f"gradient of {probe.name(at)}, incoming gradients zero",
                atol=max(1e-6 * least, 1e-30),
                likely="" if finite else partial(_divisor, probe),
            )


def _divisor(probe: Probe) -> str:
    """Detect a division in backward, by a gradient that is zero in some elements."""
    if probe.world.size > 1:  # a call more on one rank would wait for the others
        return ""
    run = probe.sample.run()
    partly = [given.clone() for given in probe.cotangents]
    for given in partly:
        given.view(-1)[::2] = 0
    if all(given.numel() < 2 for given in partly):
        return ""
    fine = all(bool(gradient.isfinite().all()) for gradient in run.filled(run.gradients(partly)))
    return f"backward divides by {'the size of the whole gradient' if fine else 'elements of the gradient'}"


@clause("Function.backward.create-graph")
def test_gradient_is_the_same_with_a_graph(probe: Probe) -> None:
    """With create_graph=True the gradients are the same as without, or an error is raised."""
    asked = [cotangent.clone().requires_grad_() for cotangent in probe.cotangents]
    run = probe.sample.run()
    actual = probe.unless_refused("it raises an error with create_graph=True", run.gradients, asked, create_graph=True)
    probe.expect_gradients(actual, "with create_graph=True")


@clause("Function.backward.any-thread")
def test_backward_in_another_thread_gives_the_same(probe: Probe) -> None:
    """Gradients computed in another thread than the call are the same."""
    given, run = probe.cotangents, probe.sample.run()
    what, threads = f"gradients of {probe.label}, backward in another thread", torch.get_num_threads()
    # Kernels are split there as they are here: another split rounds in another way.
    another = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(threads,))
    with expect.no_error(what, "the gradients"), another as thread:
        actual = thread.submit(run.gradients, given).result()
    probe.expect_gradients(actual, "with backward in another thread")


@clause("Function.forward.same-without-grad")
def test_results_are_the_same_without_gradients(subject: Subject, world: World) -> None:
    """Under no_grad and inference_mode the results are those of grad mode, and have no graph."""
    for sample in every_sample(subject, world):
        right = sample.run().tensors
        # Its results may still have a graph, from parameters of its own.
        needless = "where no input needs a gradient"
        results = {needless: sample.run(needed=()).tensors}
        with expect.no_error(f"calling {sample.label} under no_grad", "the results"):
            results["under no_grad"] = under(sample, torch.no_grad).run(needed=()).tensors
        inferred = world.try_call(under(sample, torch.inference_mode).run, needed=())
        if inferred is not None:
            results["under inference_mode"] = inferred.tensors
        for way, tensors in results.items():
            expect.that(
                len(tensors) == len(right), f"number of results of {sample.label} {way}", len(tensors), len(right)
            )
            for index, (one, other) in enumerate(zip(tensors, right, strict=True)):
                expect.close(one, other, f"output {index} of {sample.label} {way}, compared with grad mode,")
                graphless = one.grad_fn is None or way == needless
                expect.that(graphless, f"graph of output {index} of {sample.label} {way}", one.grad_fn, "none")
