"""towhee.models 1.1.3, InplaceShift: writes to its input, and to the gradient it is handed, through .data."""

import sys
import types

import torch

# The package wants torchvision and the whole of towhee; the class wants torch alone.
sys.modules["torchvision"] = types.ModuleType("torchvision")
for name in ("towhee", "towhee.models", "towhee.models.tsm"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [f"{folder}/{name.replace('.', '/')}" for folder in sys.path]
from towhee.models.tsm.temporal_shift import InplaceShift  # noqa: E402

a = torch.randn(1, 3, 4, 1, 1, requires_grad=True)
x = a * 1
squared = x.square()  # saves x
InplaceShift.apply(x, 1)
squared.sum().backward()  # marked dirty, or changed without .data, PyTorch would refuse this
print("gradient of a.square():", a.grad.flatten()[:4].tolist())
print("2 * a:                 ", (2 * a).flatten()[:4].tolist())
assert not torch.equal(a.grad, 2 * a)

weight = torch.randn(1, 3, 4, 1, 1)
before = weight.clone()
y = InplaceShift.apply(a * 1, 1)
torch.autograd.grad(y, a, weight)
print("the incoming gradient is unchanged:", torch.equal(weight, before))
assert not torch.equal(weight, before)
