"""Other values of the same kind for a tensor that is not differentiated."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch

from conformance.kit.tensors import differentiable, is_arrangeable


def other_constants(value: torch.Tensor, sizes: Collection[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield other values of the same kind for a tensor that is not differentiated; order and range stay.

    So does a sum of one, or of nothing; that of ones may be a count, and has to change.
    """
    flat = value.reshape(-1)
    is_uniform = bool((flat == flat[0]).all())
    if value.dtype == torch.bool:
        mask = flat.clone()
        mask[::2] = ~mask[::2]
        if is_uniform:
            yield "every second element the other way", mask.reshape(value.shape)
        elif value.dim() > 1:  # one for each row, as attention has it
            for way in (False, True):
                yield f"a row that is {way}", _with_first_row(value, way)
        elif int((flat[1:] != flat[:-1]).sum()) > 1 or int(flat.sum()) == int(flat[-1]):
            # As many as before, for they may be counted; those that come first, or last, may have to.
            yield "turned by one place", flat.roll(1)
    elif is_arrangeable(value) and not value.is_complex():
        step = torch.linspace(-0.4, 0.4, flat.numel(), dtype=torch.float64).to(value)
        steps = flat[1:] - flat[:-1]
        if is_uniform:
            keeps_sum = min(abs(float(flat.sum()) - total) for total in (0, 1)) < 1e-3
            change = step if keeps_sum else (step - 0.4) / 2  # at most what they are: a mask has no more than one
            yield "numbers that differ", (flat + change * (flat[0].abs() or 1.0)).reshape(value.shape)
        elif bool((steps > 0).all()) and torch.allclose(steps, steps[:1]):
            yield "numbers at other distances", (flat + step.abs() * steps[0]).reshape(value.shape)
    elif not differentiable(value) and value.dim() == 1 and not value.is_quantized:
        if is_uniform and 1 < int(flat[0]) in sizes:
            yield "lengths that differ", torch.cat([flat[:1] - 1, flat[1:]])
        else:
            yield from _other_orders(flat, sizes)


def _other_orders(flat: torch.Tensor, sizes: Collection[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield another permutation, or numbers in the order of those given: indices, offsets, segments or labels."""
    order = torch.arange(flat.numel(), device=flat.device)
    if bool((flat.sort().values == order).all()):
        if flat.numel() > 2 and bool((flat[flat.long()] == order).all()):
            yield "a permutation that is not its own inverse", order.roll(1).to(flat.dtype)
    elif int(flat.sum()) in sizes:  # they may be lengths, whose sum has to stay, or unique indices
        if len(flat) > 1 and bool((flat > 0).all()):
            yield "a part that is empty", torch.cat([flat[:1] - flat[:1], flat[:1] + flat[1:2], flat[2:]])
    elif bool((flat[1:] > flat[:-1]).all()):  # indices, each of them once, or offsets that end at a size
        if len(gaps := (flat[1:-1] > flat[:-2] + 1).nonzero()):
            lower = flat.clone()
            lower[int(gaps[0]) + 1] -= 1
            yield "a number lower by one", lower
    elif len(flat.unique()) < len(flat) and len(jumps := (flat[1:] != flat[:-1]).nonzero()):
        longer = flat.clone()
        longer[int(jumps[0]) + 1] = longer[int(jumps[0])]
        yield "a segment longer by one", longer


def _with_first_row(value: torch.Tensor, number: bool) -> torch.Tensor:
    changed = value.clone(memory_format=torch.contiguous_format)
    changed.view(-1, value.shape[-1])[0] = number
    return changed
