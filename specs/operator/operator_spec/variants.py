"""The samples of a subject: as given, in other layouts, and of other sizes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch

from conformance.kit import need
from operator_spec.spec import call, each_tensor, tensors_in

#: Ways to change a tensor, by name.
Changes = dict[str, Callable[[torch.Tensor], torch.Tensor]]
#: PyTorch's message if an operator made by custom_op returns an argument, or memory of one.
ALIAS = "may not alias any inputs"

NO_FORMULA = "no formula is registered"


def variants(subject: Any, world: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield each sample in each variation that the kernel takes, with its name; nothing requires grad."""
    for sample in subject.samples(world):
        yield from variants_of(subject, sample, VARIATIONS)


def variants_of(subject: Any, sample: Any, changes: Changes) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield one sample, and it in those of the variations that the kernel takes."""
    yield f"sample {sample.label}", fresh(sample.args)
    for name, change in changes.items():
        if name in SIZES and not all(map(is_number, tensors_in(sample.args))):
            continue  # indices and masks would mean something else
        if _takes(subject, each_tensor(fresh(sample.args), change)):
            yield f"sample {sample.label}, {name}", each_tensor(fresh(sample.args), change)


def fresh(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of the arguments that do not require grad."""
    return each_tensor(
        tuple(value if isinstance(value, torch.Tensor) else copy.copy(value) for value in args),
        lambda tensor: tensor.detach().clone(),
    )


def leaves_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of the arguments whose floating-point tensors require grad."""
    return each_tensor(fresh(args), lambda x: x.requires_grad_(is_number(x)))


def error_of(action: Callable[..., Any], *args: Any) -> Exception | None:
    """Return what an action raises, or None."""
    try:
        action(*args)
    except Exception as error:
        return error
    return None


def called(subject: Any, args: tuple[Any, ...]) -> Any:
    """Return the result of the operator itself.

    Raises:
        NotApplicable: PyTorch refuses a result that is an argument, which a clause of its own is about.
    """
    with torch.no_grad():
        try:
            return call(subject.target, args)
        except RuntimeError as error:
            need(ALIAS not in str(error), "PyTorch refuses its result; see Operator.schema.no-alias")
            raise


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """In memory where every second element is another's."""
    if not tensor.dim():
        return tensor
    wide = torch.zeros((*tensor.shape[:-1], 2 * tensor.shape[-1]), dtype=tensor.dtype, device=tensor.device)
    return wide[..., ::2].copy_(tensor)


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """With its dimensions in memory the other way round."""
    return tensor if tensor.dim() < 2 else tensor.mT.contiguous().mT


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    """Twice as long in each dimension, in the same layout; a size of 0 or 1 may have a meaning."""
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    twice = tensor.permute(order).repeat([2 if tensor.shape[dim] > 1 else 1 for dim in order])
    return twice.permute([order.index(dim) for dim in range(tensor.dim())])


def is_number(tensor: torch.Tensor) -> bool:
    """Tell whether it can be differentiated: it holds real or complex numbers."""
    return tensor.is_floating_point() or tensor.is_complex()


def _takes(subject: Any, args: tuple[Any, ...]) -> bool:
    """Tell whether the kernel takes these arguments: one that refuses a layout or a size with an error is right."""
    with torch.no_grad():
        try:
            call(subject.target, args)
        except Exception as error:
            return ALIAS in str(error)
    return True


SIZES: Changes = {"twice as long in each dimension": _doubled}
VARIATIONS: Changes = {"with elements apart": _apart, "transposed in memory": _transposed, **SIZES}
