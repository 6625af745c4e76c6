"""Brevitas 0.13.4, InplaceTensorClampSteFn: changes its input without telling autograd."""

import torch
from brevitas.ops.autograd_ste_ops import InplaceTensorClampSteFn

low, high = torch.tensor(-1.0), torch.tensor(1.0)
a = torch.tensor([0.5, 2.0], requires_grad=True)

x = a * 1
InplaceTensorClampSteFn.apply(x, low, high)
print("x afterwards:", x.tolist(), "with grad_fn", x.grad_fn.name())
# A marked input would have the Function as its grad_fn from now on, as with x.clamp_():
y = a * 1
y.clamp_(low, high)
print("y after y.clamp_():", y.tolist(), "with grad_fn", y.grad_fn.name())
assert "Clamp" not in x.grad_fn.name()

# And a leaf that requires grad may not be changed in place: PyTorch raises for clamp_, and here nothing does.
leaf = torch.tensor([0.5, 2.0], requires_grad=True)
InplaceTensorClampSteFn.apply(leaf, low, high)
print("a leaf that requires grad, afterwards:", leaf.tolist())
assert leaf.tolist() == [0.5, 1.0]
