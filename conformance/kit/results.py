"""The forms in which gathers give what they gathered: a tuple with an entry for each rank, or one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist

#: A tuple; one tensor joined along a dimension; one tensor stacked along a new dimension.
Form = Literal["tuple", "joined", "stacked"]
RESULT_FORMS: tuple[Form, ...] = get_args(Form)


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


def misshaped(result: Any, size: int) -> str:
    """Say what is wrong with a result that lacks an entry for some rank; empty if it has one for each.

    >>> misshaped(torch.ones(2), 2), misshaped((torch.ones(2),), 2), misshaped([torch.ones(1)], 1)
    ('the result is one Tensor, not a tuple with an entry for each rank', 'the result has 1 entry, for 2 ranks', '')
    """
    if not isinstance(result, tuple | list):
        return f"the result is one {type(result).__name__}, not a tuple with an entry for each rank"
    many = f"{len(result)} {'entry' if len(result) == 1 else 'entries'}"
    return "" if len(result) == size else f"the result has {many}, for {size} ranks"


def likely_form(result: Any, x: torch.Tensor, size: int) -> str:
    """The form that a result probably has in place of a tuple, and how to say so; empty for any other result.

    >>> likely_form(torch.ones(4, 3), torch.ones(2, 3), 2)
    'the entries joined in one tensor: if that is intended, say it with Subject(..., result="joined", dim=0)'
    """
    if not isinstance(result, torch.Tensor):
        return ""
    forms: tuple[Form, ...] = ("joined", "stacked")
    for form in forms:
        for dim in range(x.dim() + (form == "stacked")):
            if assembled([x] * size, form, dim).shape == result.shape:
                meant = f'Subject(..., result="{form}", dim={dim})'
                return f"the entries {form} in one tensor: if that is intended, say it with {meant}"
    return ""
