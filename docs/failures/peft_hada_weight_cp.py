"""PEFT 0.21.2, HadaWeightCP: the gradients of w1a and w2a are each made of the other product's factors."""

import torch
from peft.tuners.loha.layer import HadaWeightCP

torch.manual_seed(0)
shapes = ((2, 2, 3, 3), (2, 4), (2, 5)) * 2
factors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def plain(t1, w1a, w1b, t2, w2a, w2b):
    one, other = (torch.einsum("ijkl,jr,ip->prkl", *three) for three in ((t1, w1b, w1a), (t2, w2b, w2a)))
    return one * other


incoming = torch.randn(4, 5, 3, 3, dtype=torch.float64)
actual = torch.autograd.grad(HadaWeightCP.apply(*factors), factors, incoming)
expected = torch.autograd.grad(plain(*factors), factors, incoming)
for name, one, other in zip(("t1", "w1a", "w1b", "t2", "w2a", "w2b"), actual, expected, strict=True):
    print(f"gradient of {name}: off by {(one - other).abs().max().item():.3g}")
    assert torch.allclose(one, other) is (name not in {"w1a", "w2a"})
