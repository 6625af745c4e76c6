"""iUNets 0.1, cayley and expm: wrong gradients, for skew-symmetric matrices too."""

import torch
from iunets.cayley import cayley
from iunets.expm import expm

torch.manual_seed(0)
weight = (0.1 * torch.randn(1, 4, 4)).requires_grad_()
outer = torch.randn(1, 4, 4)
skew = weight - weight.mT


def plain_cayley(matrix):
    one = torch.eye(4)
    return torch.linalg.solve(one + matrix, one - matrix)


for function, plain in ((cayley.apply, plain_cayley), (expm.apply, torch.matrix_exp)):
    assert torch.allclose(function(skew), plain(skew), atol=1e-5)
    (actual,) = torch.autograd.grad(function(skew), weight, outer, retain_graph=True)
    (expected,) = torch.autograd.grad(plain(skew), weight, outer, retain_graph=True)
    off = ((actual - expected).abs().max() / expected.abs().max()).item()
    print(function.__self__.__name__, "gives the right matrix, and its gradient is off by", off, "of its size")
    assert off > 0.1
