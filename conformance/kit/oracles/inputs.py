"""Make a call a function of one of its inputs, which an oracle can judge."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from conformance.kit.calls import Run
from conformance.kit.copies import in_layout_of
from conformance.kit.numerics.derivatives import outputs_at
from conformance.kit.numerics.gradient_checks import result_epsilon
from conformance.kit.numerics.nearby import rms_size
from conformance.kit.numerics.precision import working_epsilon
from conformance.kit.numerics.slopes import epsilon
from conformance.kit.numerics.triangles import kept_symmetric
from conformance.kit.oracles.vector_function import Vector, VectorFunction
from conformance.kit.tensors import dense, double_dtype, is_strided, stored_values, to_double
from conformance.kit.traits import symmetric_like
from conformance.kit.world import World

#: An output counts as small beside the largest if it takes so many doublings, at least and at most, to be as large.
SMALLER = (10, 30)


def function_of(world: World, run: Run, at: int, gradient: torch.Tensor | None) -> VectorFunction:
    """Return a call as a function of one input; ``gradient`` is what backward returned for the unchanged input.

    Its results are as large as each other: next to a large one, no error in the gradient of a small one would show.
    Elements that are not finite, as masks make them, count as zero, with an incoming gradient of zero.
    """
    value, outputs_here = run.sample.values[at].detach(), run.sample.run().outputs  # backward may have freed run's own
    weights, not_finite = _weights(outputs_here), _never_finite(outputs_here)
    like, places = stored_values(value), _places(value)
    shapes = [output.shape for output in run.outputs]
    symmetric = is_strided(value) and _is_kept_symmetric(run, at, value, gradient)

    def rounded(x: Vector) -> Vector:
        stored = as_tensor(x, like)
        return as_vector((stored + stored.mH) / 2 if symmetric else stored)

    def kept(x: Vector) -> Vector:
        return as_vector(symmetric_like(value, as_tensor(x, like))) if is_strided(value) else x

    def placed(x: Vector) -> torch.Tensor:
        moved = torch.empty_like(value) if is_strided(value) else value.clone()
        stored_values(moved).copy_(as_tensor(x, like))
        return moved

    def forward(x: Vector) -> Vector:
        outputs = outputs_at(run, at, placed(x))
        if [output.shape for output in outputs] != shapes:
            raise ValueError("results of other shapes")
        found = _joined([weight * to_double(one.detach()) for weight, one in zip(weights, outputs, strict=True)])
        if bool(found[not_finite].isfinite().any()):
            raise ValueError("a result that is finite only there")
        return found.masked_fill(not_finite, 0.0)

    def backward(x: Vector, g: Vector) -> Vector:
        there = run.sample.having({at: placed(x)}).run(needed=run.leaves)
        parts = zip(there.outputs, weights, _split(g.masked_fill(not_finite, 0.0), there.outputs), strict=True)
        given = [in_layout_of(output, weight * one) for output, weight, one in parts]
        found = dict(zip(there.leaves, there.gradients(given), strict=True))[at]
        if found is None:
            return torch.zeros_like(x)
        whole = to_double(found.detach())
        stored = whole.reshape(-1)[places].reshape(like.shape) if places is not None else whole
        return as_vector((stored + stored.mH) / 2 if symmetric else stored)

    of_dtypes = epsilon([*run.outputs, *run.leaves.values()])
    inside = max(of_dtypes, result_epsilon(world, run), working_epsilon(run.sample, world))

    def of_results(g: Vector) -> Vector:
        return _joined(_split(g, run.outputs))

    return _of_finite(VectorFunction(as_vector(like), forward, backward, rounded, of_results, of_dtypes, inside, kept))


def _of_finite(function: VectorFunction) -> VectorFunction:
    """Leave the numbers of the input that are not finite as they are: no step moves an infinite one."""
    finite = function.value.isfinite()
    if bool(finite.all()) or not bool(finite.any()):
        return function

    def whole(x: Vector) -> Vector:
        return function.value.masked_scatter(finite, x)

    return replace(
        function,
        value=function.value[finite],
        forward=lambda x: function.forward(whole(x)),
        backward=lambda x, g: function.backward(whole(x), g)[finite],
        rounded=lambda x: function.rounded(whole(x))[finite],
        kept=lambda x: function.kept(whole(x))[finite],
    )


def _never_finite(outputs: list[torch.Tensor]) -> Vector:
    """Mark elements that are not finite; none if they are all that an output has."""
    marked = [~as_vector(output).isfinite() for output in outputs]
    whole = torch.cat([torch.zeros(0, dtype=torch.bool, device="cpu"), *marked])
    return whole & (not any(bool(one.all()) for one in marked if one.numel()))


def _weights(outputs: list[torch.Tensor]) -> list[float]:
    """Return by which power of two to multiply each output; what is far smaller than all others may be a residue."""
    if len(outputs) == 1:
        return [1.0]
    sizes = [rms_size(output) if bool(stored_values(output.detach()).any()) else 0.0 for output in outputs]
    found = []
    for size, output in zip(sizes, outputs, strict=True):
        power = round(math.log2(max(sizes) / size)) if size and torch.finfo(output.dtype).bits >= 32 else 0
        found.append(2.0**power if SMALLER[0] <= power <= SMALLER[1] else 1.0)
    return found


def _is_kept_symmetric(run: Run, at: int, value: torch.Tensor, gradient: torch.Tensor | None) -> bool:
    direction = torch.zeros_like(value)
    return kept_symmetric(run, at, direction, gradient) is not direction


def _places(value: torch.Tensor) -> torch.Tensor | None:
    """Return the positions of a sparse tensor's stored elements in the dense tensor; None if it has strides."""
    if is_strided(value):
        return None
    if value.layout is torch.sparse_coo:
        sizes = value.shape[: value.sparse_dim()]
        if len(sizes) < value.dim():
            raise NotImplementedError("a sparse tensor of dense parts")
        strides = [int(torch.Size(sizes[dim + 1 :]).numel()) for dim in range(len(sizes))]
        return (value._indices() * torch.tensor(strides, device=value.device)[:, None]).sum(0)
    numbered = value.to(torch.float64)
    numbers = torch.arange(1, numbered.values().numel() + 1, dtype=torch.float64, device=value.device)
    numbered.values().copy_(numbers.reshape(numbered.values().shape))
    flat = numbered.to_dense().reshape(-1)
    held = flat.nonzero().reshape(-1)
    return held[flat[held].argsort()]


def as_tensor(x: Vector, like: torch.Tensor) -> torch.Tensor:
    """Convert a vector to the shape and dtype of a tensor."""
    wide = double_dtype(like.dtype)
    if wide.is_complex:
        x = torch.complex(*x.reshape(-1, 2).unbind(-1))  # whatever its offset is, which a view would mind
    return x.view(like.shape).to(like.device, like.dtype)


def as_vector(tensor: torch.Tensor) -> Vector:
    """Convert a tensor to a vector in double precision, complex numbers as pairs."""
    wide = to_double(tensor.detach()).resolve_conj().resolve_neg().cpu()
    return (torch.view_as_real(wide) if wide.is_complex() else wide).reshape(-1)


def _joined(tensors: list[torch.Tensor]) -> Vector:
    return torch.cat([torch.zeros(0, dtype=torch.float64, device="cpu"), *map(as_vector, tensors)])


def _split(g: Vector, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Split a vector into a dense tensor for each output."""
    whole = [dense(output.detach()) for output in outputs]
    sizes = [output.numel() * (2 if output.is_complex() else 1) for output in whole]
    return [as_tensor(part, output) for part, output in zip(g.split(sizes), whole, strict=True)]
