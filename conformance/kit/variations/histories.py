"""Define what may run before a call: calls of other forms, modes, dtypes and batches. Any of them may raise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import torch

from conformance.kit.calls import SampleCall
from conformance.kit.tensors import freed
from conformance.kit.variations.axes_of_meaning import resizings
from conformance.kit.variations.batches import batch, choices, variants
from conformance.kit.variations.transforms import outputs
from conformance.kit.variations.variants import in_dtype
from conformance.kit.world import World


def refused(sample: SampleCall) -> None:
    """Call with tensors of other shapes, then again with those for which it raises."""
    cuts = [
        sample.having({at: cut(sample.values[at].detach()) for at in sample.active if sample.values[at].dim()})
        for cut in (lambda x: x[0], lambda x: x[None], lambda x: x[:1], lambda x: x[..., :1])
    ]
    for one in [one for one in cuts if World().try_call(one.run) is None]:
        World().try_call(one.run)


def written(sample: SampleCall) -> None:
    """Modify the results and gradients of a call in place, as a caller may."""
    run = sample.run()
    gradients = run.gradients([torch.ones_like(output) for output in run.outputs])
    for tensor in (*run.tensors, *gradients):
        if tensor is not None and not freed(tensor):
            with suppress(Exception):
                tensor.detach().add_(5)


def evaluation(sample: SampleCall) -> None:
    """Call without a gradient, and under ``no_grad``."""
    sample.run(needed=())
    with torch.no_grad():
        sample.run()


def resized_calls(sample: SampleCall) -> None:
    """Call with every other size, last dimensions and largest sizes first, each with and without gradients."""
    for pick in reversed(list(resizings(sample, World()))):
        with suppress(Exception):
            made = pick.value(sample)
            made.run()
            made.run(needed=())


def batched(sample: SampleCall) -> None:
    """Call with a batch of two, under :func:`torch.vmap`."""
    if sample.subject.transformable and (every := choices(sample)):
        made = batch(sample, every[0], variants(sample, 2))
        made.map(partial(outputs, sample))


def in_inference_mode(sample: SampleCall) -> None:
    """Call in inference mode, whose tensors cannot be saved for backward."""
    with torch.inference_mode():
        sample.run(needed=())


def in_bfloat16(sample: SampleCall) -> None:
    """Call with bfloat16 inputs."""
    made = in_dtype(sample, torch.bfloat16)
    if made:
        made.run()


#: Each kind of call that may come before, by its name.
HISTORIES: dict[str, Callable[[SampleCall], None]] = {
    "calls that are refused": refused,
    "results that are written to": written,
    "an evaluation": evaluation,
    "calls of other sizes": resized_calls,
    "a batch": batched,
    "a call in inference mode": in_inference_mode,
    "a call in bfloat16": in_bfloat16,
}


def run_before(history: str, sample: SampleCall) -> None:
    """Run a history, ignoring what it raises."""
    with suppress(Exception):
        HISTORIES[history](sample)
