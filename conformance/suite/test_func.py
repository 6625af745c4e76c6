"""A Function in separate form under the transforms of torch.func: the gradients of autograd."""

from __future__ import annotations

import torch
import torch.func

from conformance.kit import expect
from conformance.kit.calls import SampleCall, differentiated
from conformance.kit.deviations import need
from conformance.kit.marks import clause
from conformance.kit.numerics.formula import is_linear
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.subject import Subject
from conformance.kit.tensors import is_strided
from conformance.kit.variations.transforms import Tensors, outputs
from conformance.kit.variations.variants import draws
from conformance.kit.world import World


@clause("Function.func.grad")
def test_transforms_give_the_gradients_of_autograd(subject: Subject, world: World) -> None:
    """torch.func.vjp, grad and jacrev give every input the gradient that autograd gives it."""
    need(subject.transformable, "it is in combined form, which torch.func refuses")
    compared = 0
    for sample, _ in differentiated(subject, world):
        run = sample.run()
        if draws(sample, world) or not all(map(is_strided, run.tensors)):
            continue
        cotangents = run.cotangents(world)
        right = run.filled(run.gradients(cotangents))
        precision = working_epsilon(sample, world)
        # Ranks that compute a row at once add up their rows: a Jacobian is one rank's affair. What a declared gradient
        # adds or clips, it adds to each row.
        has_rows = world.size == 1 and is_linear(run, cotangents)
        for transform in (_by_vjp, _by_grad, _by_jacrev) if has_rows else (_by_vjp, _by_grad):
            found = world.try_call(transform, sample, run.places, cotangents)
            if found is None:
                continue
            compared += 1
            for at, one, other in zip(run.leaves, found, right, strict=True):
                what = f"gradient of {sample.name(at)} by torch.func.{transform.__name__.removeprefix('_by_')}"
                expect.close(one, other, f"{what}, against that of autograd", precision=precision)
    need(compared, "torch.func refuses it, or it draws random numbers")


def _by_vjp(sample: SampleCall, places: tuple[int, ...], cotangents: list[torch.Tensor]) -> Tensors:
    def differentiable(*values: torch.Tensor) -> Tensors:
        found = outputs(sample, dict(zip(sample.active, values, strict=True)))
        return tuple(found[place] for place in places)

    pull = torch.func.vjp(differentiable, *_values(sample))[1]
    gradients: Tensors = pull(tuple(cotangents))
    return gradients


def _by_jacrev(sample: SampleCall, places: tuple[int, ...], cotangents: list[torch.Tensor]) -> Tensors:
    """The cotangents times the Jacobian, made row by row: what becomes of a batch of rows is a matter of vmap."""

    def differentiable(*values: torch.Tensor) -> Tensors:
        found = outputs(sample, dict(zip(sample.active, values, strict=True)))
        return tuple(found[place] for place in places)

    values = _values(sample)
    rows = torch.func.jacrev(differentiable, argnums=tuple(range(len(values))), chunk_size=1)(*values)
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
