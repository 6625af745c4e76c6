"""zetascale 2.8.8, LogGammaActivation: backward takes the derivative at another place than forward its value."""

import torch
from zeta.nn.modules.pulsar import LogGammaActivation

x = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
LogGammaActivation.apply(x).sum().backward()
right = torch.digamma(x.detach() + 1)
print("gradient:", x.grad.tolist(), "derivative of lgamma(x + 1):", right.tolist())
# It is that of lgamma(x + 2).
assert torch.allclose(x.grad, torch.digamma(x.detach() + 2))
assert not torch.allclose(x.grad, right)
