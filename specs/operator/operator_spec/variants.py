"""The samples of a subject, as given and in other layouts: the same values, so the same results."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.deviations import need
from operator_spec.spec import each_tensor

#: PyTorch's message if an operator made by custom_op returns an argument, or memory of one.
ALIAS = "may not alias any inputs"


def variants(subject: Any, world: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield each sample in each layout, with its name; nothing requires grad."""
    for sample in subject.samples(world):
        yield f"sample {sample.label}", fresh(sample.args)
        for layout, change in (("with elements apart", _apart), ("transposed in memory", _transposed)):
            yield f"sample {sample.label}, {layout}", each_tensor(fresh(sample.args), change)


def fresh(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of the arguments that do not require grad."""
    return each_tensor(
        tuple(value if isinstance(value, torch.Tensor) else copy.copy(value) for value in args),
        lambda tensor: tensor.detach().clone(),
    )


def called(subject: Any, args: tuple[Any, ...]) -> Any:
    """Return the result of the operator itself.

    Raises:
        NotApplicable: PyTorch refuses a result that is an argument, which a clause of its own is about.
    """
    with torch.no_grad():
        try:
            return subject.target(*args)
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
