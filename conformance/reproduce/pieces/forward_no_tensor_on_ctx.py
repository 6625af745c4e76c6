"""Function.forward.no-tensor-on-ctx: no tensor sits on ctx, directly or in a container."""

from __future__ import annotations

from typing import Any

import torch

from conformance.reproduce.pieces.calls import call, fresh, results
from conformance.reproduce.pieces.ending import finish
from conformance.reproduce.pieces.subject import samples


def held_by(value: Any) -> list[Any]:
    """What a container holds; else the value itself."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, tuple | list) else [value]


def check() -> bool:
    """Look at every attribute of ctx."""
    wrong = False
    for sample in samples():
        outputs = results(call(*fresh(sample)))
        for name, value in vars(outputs[0].grad_fn).items() if outputs else ():
            if any(isinstance(one, torch.Tensor) for one in held_by(value)):
                print(f"ctx.{name} holds a tensor: save it with ctx.save_for_backward instead")
                wrong = True
    return wrong


if __name__ == "__main__":
    finish(check)
