"""MemCNN 1.5.2, AdditiveBlockFunction: a second derivative is lost without a word."""

import torch
from memcnn.models.additive import AdditiveBlockFunction


class Square(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.square()


x = torch.tensor([[1.0, 2.0]], dtype=torch.float64, requires_grad=True)
weight = torch.ones(1, 2, dtype=torch.float64, requires_grad=True)
(first,) = torch.autograd.grad(AdditiveBlockFunction.apply(x, Square(), Square()), x, weight, create_graph=True)
print("the first derivative:", first.tolist(), "requires grad:", first.requires_grad)
assert not first.requires_grad  # though it is made of x and of weight
