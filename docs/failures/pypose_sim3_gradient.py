"""PyPose 0.9.5, sim3_Exp: the gradient is that of a series of six terms, so its error grows with the element."""

import torch
from pypose.lietensor.operation import SE3_Act, Sim3_Act, se3_Exp, sim3_Exp


def moved(exponential, act, element):
    """Where an element moves a point: a function of it whose gradient is the ordinary one."""
    return act.apply(exponential.apply(element), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum()


for exponential, act, size in ((se3_Exp, SE3_Act, 6), (sim3_Exp, Sim3_Act, 7)):
    for length in (0.1, 1.0, 2.0, 4.0):
        torch.manual_seed(0)
        direction = torch.nn.functional.normalize(torch.randn(size, dtype=torch.float64), dim=0)
        element = (length * direction).requires_grad_()
        (gradient,) = torch.autograd.grad(moved(exponential, act, element), element)
        slopes = torch.stack(
            [
                (moved(exponential, act, element + step) - moved(exponential, act, element - step)) / 2e-5
                for step in 1e-5 * torch.eye(size, dtype=torch.float64)
            ]
        )
        error = ((gradient - slopes).norm() / slopes.norm()).item()
        print(f"{exponential.__name__}, an element of length {length}: the gradient is off by {error:.1g}")
        assert (error > 1e-6) is (exponential is sim3_Exp and length > 0.1)
