"""BNN 0.1.2, SignActivationStochastic: forward overwrites its input, which backward reads."""

import torch
from bnn.ops import SignActivation, SignActivationStochastic

torch.manual_seed(0)
start = torch.tensor([-1.5, -0.6, -0.2, 0.1, 0.4, 0.9], requires_grad=True)
for function in (SignActivation, SignActivationStochastic):
    x = start * 1
    result = function.apply(x)
    print(f"{function.__name__}: x afterwards is {x.tolist()}")
    (gradient,) = torch.autograd.grad(result.sum(), start)
    print("  and the gradient is", gradient.tolist())
# The values that forward left are -1 and 1, and backward has no gradient from 1 on:
assert x.abs().eq(1).all()
assert not gradient.any()

# A leaf that requires grad is changed without the error that add_ raises:
SignActivationStochastic.apply(start)
assert start.abs().eq(1).all()
