"""A Function in separate form under the transforms of torch.func: the gradients of autograd."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.func

from conformance.kit import Probe, SampleCall, clause, is_strided, need
from conformance.kit.numerics.formula import is_linear
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.variations.transforms import Tensors, outputs


@clause("Function.func.grad")
def test_transforms_give_the_gradients_of_autograd(probe: Probe) -> None:
    """torch.func.vjp, grad and jacrev give every input the same gradient as autograd."""
    sample, world = probe.sample, probe.world
    need(sample.subject.transformable, "it is in the combined form, for which torch.func raises an error")
    need(not probe.draws and all(map(is_strided, probe.run.tensors)), "it is random, or its results are sparse")
    precision = working_epsilon(sample, world)
    # Ranks that compute a row at once add up their rows: a Jacobian is one rank's affair. What a declared gradient
    # adds or clips, it adds to each row.
    has_rows = world.size == 1 and is_linear(probe.run, probe.cotangents)
    tried = 0
    for transform in (_by_vjp, _by_grad, _by_jacrev) if has_rows else (_by_vjp, _by_grad):
        found = world.try_call(transform, sample, probe.run.places, probe.cotangents)
        if found is not None:
            tried += 1
            how = f"by torch.func.{transform.__name__.removeprefix('_by_')}"
            probe.expect_gradients(found, how, precision=precision)
    need(tried, "torch.func raises an error")


def _outputs_at(sample: SampleCall, places: tuple[int, ...]) -> Callable[..., Tensors]:
    """The differentiable outputs as a function of the differentiated inputs."""

    def call(*values: torch.Tensor) -> Tensors:
        found = outputs(sample, dict(zip(sample.active, values, strict=True)))
        return tuple(found[place] for place in places)

    return call


def _by_vjp(sample: SampleCall, places: tuple[int, ...], cotangents: list[torch.Tensor]) -> Tensors:
    pull = torch.func.vjp(_outputs_at(sample, places), *_values(sample))[1]
    gradients: Tensors = pull(tuple(cotangents))
    return gradients


def _by_jacrev(sample: SampleCall, places: tuple[int, ...], cotangents: list[torch.Tensor]) -> Tensors:
    """The cotangents times the Jacobian, made row by row: what becomes of a batch of rows is a matter of vmap."""
    values = _values(sample)
    rows = torch.func.jacrev(_outputs_at(sample, places), argnums=tuple(range(len(values))), chunk_size=1)(*values)
    return tuple(
        torch.stack([torch.tensordot(c, row[at], c.dim()) for c, row in zip(cotangents, rows, strict=True)]).sum(0)
        for at in range(len(values))
    )


def _by_grad(sample: SampleCall, places: tuple[int, ...], cotangents: list[torch.Tensor]) -> Tensors:
    def loss(*values: torch.Tensor) -> torch.Tensor:
        found = outputs(sample, dict(zip(sample.active, values, strict=True)))
        terms = [(weight.conj() * found[place]).real.sum() for place, weight in zip(places, cotangents, strict=True)]
        return torch.stack(terms).sum()

    gradients: Tensors = torch.func.grad(loss, argnums=tuple(range(len(sample.active))))(*_values(sample))
    return gradients


def _values(sample: SampleCall) -> Tensors:
    return tuple(sample.values[at].detach().clone() for at in sample.active)
