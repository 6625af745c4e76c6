"""Function.backward.grads-untouched: incoming gradients are as they were."""

from __future__ import annotations

import torch

from conformance.reproduce.pieces.calls import call, fresh, leaves_of, results
from conformance.reproduce.pieces.ending import finish
from conformance.reproduce.pieces.subject import samples


def check() -> bool:
    """Compare incoming gradients before and after backward."""
    wrong = False
    for sample in samples():
        args = fresh(sample)
        outputs = results(call(*args))
        if not outputs:
            continue
        grads = [torch.randn_like(output) for output in outputs]
        before = [grad.clone() for grad in grads]
        torch.autograd.grad(outputs, leaves_of(args), grads, allow_unused=True)
        for index, (grad, old) in enumerate(zip(grads, before, strict=True)):
            if not torch.equal(grad, old):
                print(f"gradient of output {index}: handed in as {old.tolist()}, after backward it is {grad.tolist()}")
                wrong = True
    return wrong


if __name__ == "__main__":
    finish(check)
