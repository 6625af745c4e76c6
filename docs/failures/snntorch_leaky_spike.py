"""snntorch 1.0.0, LeakySpikeOperator: forward takes two inputs, backward returns one gradient."""

import torch
from snntorch.surrogate import LeakySpikeOperator

x = torch.randn(3, requires_grad=True)
try:
    LeakySpikeOperator.apply(x, 0.1).sum().backward()
except RuntimeError as error:
    print(error)
else:
    raise AssertionError("mended")
