"""PEFT 0.21.2, BlockCircularConvolution: the gradient of its input is wrong for blocks longer than two."""

import torch
from peft.tuners.c3a.utils import BlockCircularConvolution

for size in (2, 3, 4):
    torch.manual_seed(0)
    x = torch.randn(5, 2 * size, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 2, size, dtype=torch.float64, requires_grad=True)
    incoming = torch.randn(5, 4 * size, dtype=torch.float64)
    actual = torch.autograd.grad(BlockCircularConvolution.apply(x, weight), (x, weight), incoming)
    blocks = torch.fft.ifft(x.view(5, 2, size))
    plain = torch.fft.fft(torch.einsum("rnb,mnb->rmb", blocks, torch.fft.fft(weight))).real.reshape(5, -1)
    expected = torch.autograd.grad(plain, (x, weight), incoming)
    off = [(one - other).abs().max().item() for one, other in zip(actual, expected, strict=True)]
    print(f"blocks of {size}: the gradient of x is off by {off[0]:.3g}, that of the weight by {off[1]:.3g}")
    assert (max(off) < 1e-9) is (size == 2)
