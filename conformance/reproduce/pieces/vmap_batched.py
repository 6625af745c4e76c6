"""Function.vmap.batched: a batch gives what sample by sample gives."""

from __future__ import annotations

from typing import Any

import torch

from conformance.reproduce.pieces.calls import call, fresh
from conformance.reproduce.pieces.ending import finish
from conformance.reproduce.pieces.subject import samples


def batched(arg: Any) -> Any:
    """A batch of two, of a tensor; anything else as it is."""
    return torch.stack([arg.detach(), 2 * arg.detach()]) if isinstance(arg, torch.Tensor) else arg


def check() -> bool:
    """Compare a batch of two with two calls."""
    wrong = False
    for sample in samples():
        batch = [batched(arg) for arg in fresh(sample)]
        in_dims = tuple(0 if isinstance(arg, torch.Tensor) else None for arg in batch)
        actual = torch.vmap(call, in_dims=in_dims)(*batch)
        rows = [call(*(arg[row] if isinstance(arg, torch.Tensor) else arg for arg in batch)) for row in range(2)]
        if not isinstance(actual, tuple):
            actual, rows = (actual,), [(row,) for row in rows]
        for index, one in enumerate(actual):
            expected = torch.stack([row[index] for row in rows])
            if one.shape != expected.shape or not torch.allclose(one, expected):
                print(f"output {index} under vmap: {one.tolist()}; sample by sample: {expected.tolist()}")
                wrong = True
    return wrong


if __name__ == "__main__":
    finish(check)
