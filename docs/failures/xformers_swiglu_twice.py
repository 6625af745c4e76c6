"""xFormers 0.0.35, _SwiGLUDecomposedFunc: the second derivative is wrong, and doubles are rounded to singles."""

import torch
import torch.nn.functional as F
from xformers.ops.swiglu_op import _SwiGLUDecomposedFunc


def plain(x, w1, b1, w2, b2, w3, b3):
    return F.linear(F.silu(F.linear(x, w1, b1)) * F.linear(x, w2, b2), w3, b3)


torch.manual_seed(0)
shapes = ((4, 3), (5, 3), (5,), (5, 3), (5,), (2, 5), (2,))
arguments = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
first, second = [], []
for function in (_SwiGLUDecomposedFunc.apply, plain):
    (gradient,) = torch.autograd.grad(function(*arguments).pow(2).sum(), arguments[0], create_graph=True)
    first.append(gradient.detach())
    second.append(*torch.autograd.grad(gradient.pow(2).sum(), arguments[0]))
for name, (actual, expected) in (("first", first), ("second", second)):
    error = (actual - expected).abs().max() / expected.abs().max()
    print(f"{name} derivative: off by {error.item():.1g} of the largest element")
    assert error > (1e-9 if name == "first" else 0.1)
