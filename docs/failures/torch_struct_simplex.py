"""torch-struct 0.5, _SimplexProject: forward subtracts the norm of the marginals, backward half of its square."""

import torch
from torch_struct.semirings.sparse_max import _SimplexProject

x = torch.tensor([[0.3, 0.1, -0.4]], dtype=torch.float64, requires_grad=True)
_SimplexProject.apply(x, -1).sum().backward()
step = 1e-6
along = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
ends = [_SimplexProject.apply(x.detach() + sign * step * along, -1) for sign in (1, -1)]
slope = ((ends[0] - ends[1]) / (2 * step)).item()
print("gradient of the first number:", x.grad[0, 0].item(), "by differences:", slope)
assert abs(x.grad[0, 0].item() - slope) > 0.01
