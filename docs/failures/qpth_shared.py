"""qpth 0.0.18, QPFunction: parameters that a batch shares get the mean of its gradients instead of their sum."""

import sys
import types

import torch

# The package wants cvxpy for one of its two solvers, which is not used here.
sys.modules["qpth.solvers.cvxpy"] = types.ModuleType("qpth.solvers.cvxpy")
from qpth.qp import QPFunction  # noqa: E402

quadratic = torch.eye(2, dtype=torch.float64)
linear = torch.tensor([0.3, -0.4], dtype=torch.float64, requires_grad=True)
bounds = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64), torch.tensor([0.1, 3.0], dtype=torch.float64)
nothing = torch.empty(0, dtype=torch.float64)


def solved(batch):
    """The solutions of problems that are all the same."""
    return QPFunction(verbose=-1)(quadratic.expand(batch, 2, 2), linear, *bounds, nothing, nothing)


(one,) = torch.autograd.grad(solved(1).sum(), linear)
(four,) = torch.autograd.grad(solved(4).sum(), linear)
print("gradient of the sum of one solution:", one.tolist(), "and of four that are the same:", four.tolist())
assert torch.allclose(solved(4), solved(1).expand(4, 2), atol=1e-6)
assert torch.allclose(four, one, atol=1e-6)  # four times as much would be right
