"""Results of a call, as copies with names, so that another call can be compared with it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from conformance.kit.calls import Run
from conformance.kit.tensors import freed
from conformance.kit.world import World


def copied(run: Run, world: World) -> list[torch.Tensor]:
    """Return copies of the outputs and of all gradients.

    Args:
        run: the call.
        world: makes the incoming gradients.
    """
    outputs = [tensor.detach().clone() for tensor in run.tensors if not freed(tensor)]
    gradients = run.filled(run.gradients(run.cotangents(world))) if run.outputs else []
    return [*outputs, *(gradient.clone() for gradient in gradients)]


def names(run: Run) -> Iterator[str]:
    """Yield the name of each of them."""
    yield from (f"output {index}" for index, tensor in enumerate(run.tensors) if not freed(tensor))
    yield from (f"gradient of {run.sample.names[at]}" for at in run.leaves if run.outputs)
