"""Function.backward.count: as many values as forward had inputs."""

from __future__ import annotations

from typing import Any

import torch

from conformance.reproduce.pieces.calls import call, fresh, leaves_of, results
from conformance.reproduce.pieces.ending import finish
from conformance.reproduce.pieces.subject import Function, samples

original = Function.backward
returned: list[tuple[Any, ...]] = []


def watched(ctx: Any, *grads: Any) -> Any:
    """Take down what backward returns."""
    values = original(ctx, *grads)
    returned.append(values if isinstance(values, tuple) else (values,))
    return values


def check() -> bool:
    """Count for every sample."""
    Function.backward = staticmethod(watched)  # type: ignore[method-assign]
    wrong = False
    for sample in samples():
        args = fresh(sample)
        outputs = results(call(*args))
        if not outputs:
            continue
        ones = [torch.ones_like(output) for output in outputs]
        try:
            torch.autograd.grad(outputs, leaves_of(args), ones, allow_unused=True)
        except RuntimeError as error:
            print(error)
        for values in returned:
            while len(values) > len(args) and values[-1] is None:
                values = values[:-1]  # noqa: PLW2901 - None too many is ignored
            if len(values) != len(args):
                print(f"backward returned {len(values)} values; forward had {len(args)} inputs")
                wrong = True
        returned.clear()
    return wrong


if __name__ == "__main__":
    finish(check)
