"""AllGatherGradAutograd differentiated again, and under vmap with gradients mapped on some ranks only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.kit import NotApplicable, Subject, World, cases, clause, deadline, expect, need, ranks
from conformance.kit.gathers.expected import cotangents, entries, need_jvp, need_transforms, need_vmap, rank_inputs
from conformance.kit.gathers.mistakes import added_up


def _squares(subject: Subject, world: World) -> Callable[[torch.Tensor], torch.Tensor]:
    """A loss of this rank's own: a weighted sum of the squares of every entry."""
    weights = cotangents(world, (2, 3), torch.float64)[world.rank]
    return lambda x: torch.stack(
        [(weight * entry * entry).sum() for weight, entry in zip(weights, entries(subject, world, x), strict=True)]
    ).sum()


def _unless_refused(differentiate: Callable[[], Any]) -> Any:
    """Return the result; not applicable if the class says that it cannot be differentiated again."""
    try:
        return differentiate()
    except RuntimeError as error:
        if isinstance(error, NotImplementedError) or "once_differentiable" in str(error):
            raise NotApplicable(f"differentiating its gradient raises an error: {error}") from error
        raise


def _expect_derivative(world: World, actual: Any, along: torch.Tensor, how: str) -> None:
    curvature = 2 * added_up(cotangents(world, (2, 3), torch.float64), world.rank)
    own = 2 * cotangents(world, (2, 3), torch.float64)[world.rank][world.rank]
    name = f"the gradient's derivative on rank {world.rank} of {world.size}, {how}, summed over the losses of all ranks"
    expect.close(actual, curvature * along, name, alternatives={"this rank's own loss alone": own * along})


@clause("AllGatherGradAutograd.backward.twice")
@ranks(1, 2, 3)
def test_gradient_of_the_gradient(subject: Subject, world: World) -> None:
    """The gradient of a gradient that went through the gather is that of all ranks' losses."""
    x = rank_inputs(world, (2, 3), torch.float64)[world.rank].requires_grad_()
    along = rank_inputs(world, (2, 3), torch.float64, "along")[world.rank]
    loss = _squares(subject, world)(x)
    first = torch.autograd.grad(loss, x, create_graph=True, allow_unused=True)[0] if loss.requires_grad else None
    differentiable = first is not None and first.requires_grad
    need(all(world.exchange(differentiable)), "its gradient has no graph, so it cannot be differentiated again")
    assert first is not None
    # By backward, not torch.autograd.grad: that would go round a node which refuses.
    _unless_refused(lambda: first.backward(along.clone()))
    _expect_derivative(world, x.grad, along, "in reverse mode")


@clause("AllGatherGradAutograd.backward.twice")
@ranks(1, 2, 3)
def test_tangent_of_the_gradient(subject: Subject, world: World) -> None:
    """torch.func.jvp of torch.func.grad gives the derivative of the gradient along all ranks' tangents."""
    need_transforms(subject)
    need_jvp(subject)
    x = rank_inputs(world, (2, 3), torch.float64)[world.rank]
    along = rank_inputs(world, (2, 3), torch.float64, "along")[world.rank]
    slope = torch.func.grad(_squares(subject, world))
    _, tangent = _unless_refused(lambda: torch.func.jvp(slope, (x,), (along.clone(),)))
    _expect_derivative(world, tangent, along, "in forward mode")


@clause("AllGatherGradAutograd.vmap.some-ranks")
@ranks(2, 3)
@cases(odd=["first", "last"], mapped=["there alone", "elsewhere"])
@deadline(10)
def test_gradients_that_differ_by_sample_on_some_ranks(subject: Subject, world: World, odd: str, mapped: str) -> None:
    """If gradients differ from sample to sample on some ranks only, every rank's sum has them for each sample."""
    need_vmap(subject)
    samples, chosen = 4, 0 if odd == "first" else world.size - 1
    by_sample = [(rank == chosen) == (mapped == "there alone") for rank in range(world.size)]
    varied, alike = cotangents(world, (samples, 3), torch.float64), cotangents(world, (3,), torch.float64)
    given = [varied[rank] if by_sample[rank] else alike[rank] for rank in range(world.size)]
    x = rank_inputs(world, (samples, 3), torch.float64)[world.rank]

    def pulled(sample: torch.Tensor, *grads: torch.Tensor) -> Any:
        pull = torch.func.vjp(lambda t: entries(subject, world, t), sample)[1]
        return pull(grads)[0]

    in_dims = (0, *[0 if by_sample[world.rank] else None] * world.size)
    actual = torch.vmap(pulled, in_dims=in_dims)(x, *given[world.rank])
    expected = torch.stack([theirs[world.rank].expand(samples, 3) for theirs in given]).sum(0)
    those = ", ".join(f"{rank}" for rank in range(world.size) if by_sample[rank])
    name = f"the gradient of x on rank {world.rank} of {world.size} under vmap, mapped on rank {those} only"
    expect.close(actual, expected, name)
