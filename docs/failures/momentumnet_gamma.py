"""momentumnet 0.10, MomentumTransformMemory: forward rounds gamma to a quotient of integers, backward does not."""

import torch
from momentumnet.momentum_net import MomentumTransformMemory


class Zero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0 * x


x, v = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64, requires_grad=True)
result = MomentumTransformMemory.apply(x, v, 0.9, (Zero(),), None, True, 0)
(gradient,) = torch.autograd.grad(result, v)
print("forward multiplies v by", result.item(), "- backward by", gradient.item())
assert abs(result.item() - gradient.item()) > 1e-6, "mended"
