"""The forms in which gathers give what they gathered: a tuple with an entry for each rank, or one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist

#: A tuple; one tensor joined along a dimension; one tensor stacked along a new dimension.
Form = Literal["tuple", "joined", "stacked"]
FORMS: tuple[Form, ...] = get_args(Form)


def entries_of(result: Any, form: Form | None, dim: int) -> Any:
    """The entries of all ranks; a result that does not have its form is left for the tests to judge.

    >>> [entry.tolist() for entry in entries_of(torch.tensor([[1.0, 2.0]]), "stacked", 0)]
    [[1.0, 2.0]]
    """
    if form == "tuple" or not isinstance(result, torch.Tensor):
        return result
    if form == "stacked":
        return result.unbind(dim)
    return result.tensor_split(dist.get_world_size() if dist.is_initialized() else 1, dim)


def assembled(entries: Sequence[torch.Tensor], form: Form | None, dim: int) -> Any:
    """The entries in one of the forms.

    >>> assembled([torch.zeros(2), torch.ones(2)], "joined", 0)
    tensor([0., 0., 1., 1.])
    """
    if form == "tuple":
        return tuple(entries)
    return torch.cat(list(entries), dim) if form == "joined" else torch.stack(list(entries), dim)


def has_place(tensor: torch.Tensor, form: Form | None, dim: int) -> bool:
    """Whether tensors like this one can be joined along ``dim``, or stacked along a new dimension there.

    >>> has_place(torch.ones(()), "joined", -1), has_place(torch.ones(()), "stacked", -1)
    (False, True)
    """
    dimensions = tensor.dim() + (form == "stacked")
    return form == "tuple" or -dimensions <= dim < dimensions
