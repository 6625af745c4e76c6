"""Compare a gradient with that of a reference: the same function, written plainly, differentiated in double precision.

    |backward(g) - reference(g)| <= 10 |eager(g) - reference(g)|, and no element further off than 20 times the largest

where eager is the reference in the dtype of the sample: what PyTorch itself loses there. Correct kernels, fused ones
and those that round after each operation, lose up to five times that in norm and ten times in the largest element. If
eager is exact by luck, a quarter of a machine epsilon counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from conformance.kit import tolerances
from conformance.kit.calls import Run, SampleCall
from conformance.kit.copies import widened
from conformance.kit.deviations import Skipped
from conformance.kit.frames import told
from conformance.kit.judgement import ALONG, ELSEWHERE, Judgement
from conformance.kit.numerics.slopes import epsilon
from conformance.kit.tensors import to_double
from conformance.kit.world import World

NAME = "reference"


def judgements(sample: SampleCall, world: World) -> dict[int, Judgement]:
    """Judge the gradient of each input by the reference that the subject declares; empty if it declares none.

    Raises:
        Skipped: the reference raises, or computes something else than forward does.
    """
    if sample.subject.reference is None:
        return {}
    run = sample.run()
    cotangents = run.cotangents(world)
    actual = run.filled(run.gradients(cotangents))
    subject = replace(sample.subject, target=sample.subject.reference, call=None)
    eager = replace(sample, subject=subject)
    wide = eager.having({at: widened(one) for at, one in enumerate(sample.values) if isinstance(one, torch.Tensor)})
    right_run = _called(wide, run)
    eager_run = world.try_call(eager.run)
    eps = epsilon([*run.outputs, *run.leaves.values()])
    for place, (one, other) in enumerate(zip(run.outputs, right_run.outputs, strict=True)):
        own = None if eager_run is None else eager_run.outputs[place]
        judged = judged_by_reference(one, other, own, eps)
        if judged.verdict == "differs":
            raise Skipped(f"reference= must compute the same as forward: result {place} is off by {judged.error:.2g}")
    right = _gradients(right_run, cotangents)
    eagers = None if eager_run is None else world.try_call(_gradients, eager_run, cotangents)
    owns = [None] * len(right) if eagers is None else eagers
    return {
        at: judged_by_reference(one, other, own, eps)
        for at, one, other, own in zip(run.leaves, actual, right, owns, strict=True)
    }


def judged_by_reference(actual: torch.Tensor, right: torch.Tensor, eager: torch.Tensor | None, eps: float) -> Judgement:
    """Compare a tensor with the expected one, in units of what PyTorch itself loses in the same dtype.

    >>> masked = torch.tensor([1.0, -torch.inf])
    >>> judged_by_reference(masked, masked.double(), None, 1.2e-7).verdict
    'agrees'
    """
    one, other = to_double(actual.detach()), to_double(right.detach())
    own = other if eager is None else to_double(eager.detach())
    alike = ~one.isfinite() & ((one == other) | (one.isnan() & other.isnan()))  # their difference would be no number
    one, other, own = (tensor.masked_fill(alike, 0.0) for tensor in (one, other, own))
    # Without eager's own loss, that of one rounding; and double precision is its own reference.
    least = tolerances.DOUBLE_BY_REFERENCE if eps < tolerances.SINGLE else eps if eager is None else eps / 4
    size, largest = float(other.norm()), _largest(other)
    if size == 0 == float(one.norm()):
        return Judgement("agrees", NAME, ALONG, 0.0, 0.0, 0.0, 0.0, 0.0, calls=3)
    norm = tolerances.EAGER_NORMS * max(float((own - other).norm()) / size if size else 0.0, least)
    element = tolerances.EAGER_ELEMENTS * max(_largest(own - other), least * largest)
    error = float((one - other).norm()) / size if size else float("inf")
    is_off = not error <= norm
    is_differing = is_off or not _largest(one - other) <= element
    return Judgement(
        "differs" if is_differing else "agrees",
        NAME,
        ELSEWHERE if is_differing else ALONG,
        error=error,
        resolution=norm,
        elsewhere=norm,
        noise=norm / tolerances.EAGER_NORMS,
        calls=3,
    )


def _largest(tensor: torch.Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _called(wide: SampleCall, run: Run) -> Run:
    """Call the reference in double precision, and check that its results have the shapes of forward's."""
    try:
        found = wide.run(needed=run.leaves)
    except Exception as error:  # it is the caller's, and no fault of the Function
        raise Skipped(f"reference= raises {told(error)}") from error
    shapes = [[tuple(output.shape) for output in one.outputs] for one in (run, found)]
    if shapes[0] != shapes[1]:
        raise Skipped(f"reference= must return the same shapes as forward: {shapes[0]}, not {shapes[1]}")
    return found


def _gradients(run: Run, cotangents: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    given = [cotangent.to(output.dtype) for cotangent, output in zip(cotangents, run.outputs, strict=True)]
    return run.filled(run.gradients(given))
