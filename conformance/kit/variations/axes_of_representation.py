"""Axes of representation: the same sample called in another way, with the same expected result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import torch

from conformance.kit.calls import SampleCall
from conformance.kit.tensors import form_of, is_arrangeable, is_strided
from conformance.kit.variations.axis import Pick
from conformance.kit.variations.layouts import GRADIENT_LAYOUTS, LAYOUTS, lies_otherwise

#: Subsets of inputs and of outputs are all tried up to this many; of more, one alone and all but one.
IN_FULL = 4
#: Powers of two by which a loss is scaled: those of a gradient scaler, and of a loss that is a mean over very many.
SCALES = (16, -16, 30, -30)
LOWER = {torch.float64: (torch.float32,), torch.complex128: (torch.complex64,)}


def layout(sample: SampleCall, outputs: Sequence[torch.Tensor | None]) -> Iterator[Pick]:
    """Put each input into another layout, with the same numbers."""
    for at, value in enumerate(sample.values):
        if is_arrangeable(value) and at not in sample.of_modules and value.dim():
            for name in ("transposed in memory", "sliced out of wider memory", "cut out of longer memory"):
                if lies_otherwise(LAYOUTS[name](value.detach()), value):
                    yield Pick("layout", sample.names[at], name, LAYOUTS[name], at)


def dtype(sample: SampleCall, outputs: Sequence[torch.Tensor | None]) -> Iterator[Pick]:
    """Convert each input to a lower precision; a mask to bytes."""
    for at, value in enumerate(sample.values):
        if not isinstance(value, torch.Tensor) or at in sample.of_modules:
            continue
        if value.dtype == torch.bool:
            yield Pick("dtype", sample.names[at], "torch.uint8", torch.uint8, at)
        elif at in sample.active and len(sample.active) > 1:
            for lower in LOWER.get(value.dtype, ()):
                yield Pick("dtype", sample.names[at], str(lower), lower, at)


def parameter(sample: SampleCall, outputs: Sequence[torch.Tensor | None]) -> Iterator[Pick]:
    """Make each input a parameter of a module."""
    for at in sample.active:
        if at in sample.top and is_arrangeable(sample.values[at]):
            yield Pick("parameter", sample.names[at], "torch.nn.Parameter", None, at)


def needs(sample: SampleCall, outputs: Sequence[torch.Tensor | None]) -> Iterator[Pick]:
    """Let only some inputs need a gradient."""
    for chosen in _subsets(sample.active):
        yield Pick("needs", "", f"{' and '.join(sample.names[at] for at in chosen)} alone", chosen)


def used(sample: SampleCall, outputs: Sequence[torch.Tensor | None]) -> Iterator[Pick]:
    """Use only some outputs in the loss."""
    places = [at for at, output in enumerate(outputs) if output is not None]
    for chosen in _subsets(places):
        yield Pick("used", "", f"{' and '.join(f'output {at}' for at in chosen)} alone", chosen)


def gradient_layout(sample: SampleCall, outputs: Sequence[torch.Tensor | None]) -> Iterator[Pick]:
    """Put each incoming gradient, and all together, into another layout."""
    found = {at: output for at, output in enumerate(outputs) if output is not None and is_strided(output)}
    for name, arrange in GRADIENT_LAYOUTS.items():
        changed = [at for at, one in found.items() if lies_otherwise(arrange(one), one)]
        for at in changed if len(found) > 1 else ():
            yield Pick("gradient layout", f"output {at}", name, arrange, at)
        if changed:
            yield Pick("gradient layout", "", name, arrange)


def gradient_form(sample: SampleCall, outputs: Sequence[torch.Tensor | None]) -> Iterator[Pick]:
    """Pass incoming gradients that are one tensor, or slices of one storage."""
    found = [output for output in outputs if output is not None]
    alike = len(found) > 1 and all(is_strided(one) and form_of(one) == form_of(found[0]) for one in found)
    if alike:
        yield Pick("gradient form", "", "the same tensor for every output", _the_same)
        yield Pick("gradient form", "", "slices of one memory, the last first", _slices)
    if found and all(map(is_strided, found)):
        yield Pick("gradient form", "", "ones", ones)


def gradient_scale(sample: SampleCall, outputs: Sequence[torch.Tensor | None]) -> Iterator[Pick]:
    """Multiply the loss by a power of two, which changes no digit of any gradient."""
    found = [output for output in outputs if output is not None]
    for power in SCALES if found and all(torch.finfo(one.dtype).bits >= 32 for one in found) else ():
        yield Pick("gradient scale", "", f"2 to the power of {power}", 2.0**power)


#: The axes of each family, by its name.
PICKS: dict[str, Callable[[SampleCall, Sequence[torch.Tensor | None]], Iterator[Pick]]] = {
    "layout": layout,
    "dtype": dtype,
    "parameter": parameter,
    "needs": needs,
    "used": used,
    "gradient layout": gradient_layout,
    "gradient form": gradient_form,
    "gradient scale": gradient_scale,
}


def _subsets(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    count = len(places)
    sizes = range(1, count) if count <= IN_FULL else (1, count - 1)
    for size in sizes:
        yield from combinations(places, size)


def _the_same(given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [given[0]] * len(given)


def ones(given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Pass ones as incoming gradients, as for a loss that is the sum of the outputs."""
    return [torch.ones_like(one) for one in given]


def _slices(given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    memory = torch.stack([*reversed(given)])
    return [memory[len(given) - 1 - at] for at in range(len(given))]
