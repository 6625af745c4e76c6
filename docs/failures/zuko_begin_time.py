"""Zuko 1.6.0, AdaptiveCheckpointAdjoint: the gradient of the time at which an integral begins has the wrong sign."""

import torch
from zuko.utils import odeint


def grown(begin):
    return odeint(lambda t, x: 0.5 * x, torch.tensor(2.0, dtype=torch.float64), begin, torch.tensor(1.0).double())


begin = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
(gradient,) = torch.autograd.grad(grown(begin), begin)
step = 1e-4
slope = (grown(begin.detach() + step) - grown(begin.detach() - step)) / (2 * step)
print("a later begin leaves less time to grow, so the slope is", slope.item(), "and the gradient is", gradient.item())
assert slope < 0 < gradient
assert torch.isclose(slope, -gradient, rtol=1e-4)
