"""MemCNN 1.5.2, AdditiveBlockInverseFunction: the gradients of the two halves come back in the wrong order."""

import torch
from memcnn.models.additive import AdditiveBlockFunction, AdditiveBlockInverseFunction
from torch.autograd import gradcheck


class Scale(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.weight = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * self.weight * x


first, second = Scale(0.0), Scale(0.0)  # with both blocks zero, the inverse is the identity
y = torch.randn(1, 2, dtype=torch.float64, requires_grad=True)
weights = [*first.parameters(), *second.parameters()]
x = AdditiveBlockInverseFunction.apply(y, first, second, *weights)
(gradient,) = torch.autograd.grad(x, y, torch.tensor([[1.0, 0.0]], dtype=torch.float64))
print("x is y:", torch.equal(x, y), "- the gradient of x[0] is", gradient.tolist())
assert gradient.tolist() == [[0.0, 1.0]]

first, second = Scale(0.5), Scale(2.0)
weights = [*first.parameters(), *second.parameters()]
assert gradcheck(lambda x: AdditiveBlockFunction.apply(x * 1, first, second, *weights), y)
try:
    gradcheck(lambda y: AdditiveBlockInverseFunction.apply(y * 1, first, second, *weights), y)
except Exception as error:
    print("gradcheck:", str(error).splitlines()[0])
else:
    raise AssertionError("mended")
