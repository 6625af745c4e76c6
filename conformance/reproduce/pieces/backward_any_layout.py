"""Function.backward.any-layout: incoming gradients of other layouts give what contiguous ones give."""

from __future__ import annotations

from collections.abc import Callable

import torch

from conformance.reproduce.pieces.calls import call, fresh, leaves_of, results
from conformance.reproduce.pieces.ending import finish
from conformance.reproduce.pieces.subject import samples

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": lambda grad: torch.ones((), dtype=grad.dtype).expand(grad.shape),
    "transposed": lambda grad: grad.clone().transpose(0, -1).contiguous().transpose(0, -1) if grad.dim() else grad,
    "every other element of a larger one": lambda grad: torch.stack([grad, grad], -1)[..., 0],
    "the second half of a longer one": lambda grad: torch.stack([-grad, grad])[1],
}


def check() -> bool:
    """Compare for every sample and layout."""
    wrong = False
    for sample in samples():
        args = fresh(sample)
        leaves = leaves_of(args)
        for name, laid_out in LAYOUTS.items():
            outputs = results(call(*args))
            if not outputs:
                continue
            grads = [laid_out(torch.randn_like(output)) for output in outputs]
            plain = [grad.clone(memory_format=torch.contiguous_format) for grad in grads]
            expected = torch.autograd.grad(outputs, leaves, plain, allow_unused=True)
            try:
                actual = torch.autograd.grad(results(call(*args)), leaves, grads, allow_unused=True)
            except RuntimeError as error:
                print(f"with a gradient that is {name}: {error}")
                wrong = True
                continue
            for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
                if one is not None and not torch.allclose(one, other):
                    print(
                        f"input {index}, with a gradient that is {name}: {one.tolist()}; contiguous: {other.tolist()}"
                    )
                    wrong = True
    return wrong


if __name__ == "__main__":
    finish(check)
