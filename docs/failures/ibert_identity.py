"""Transformers 5.23.0, FixedPointMul of I-BERT: what is added to the product gets no gradient."""

import torch
from transformers.models.ibert.quant_modules import FixedPointMul

product, identity = (torch.randn(1, 2, 3, requires_grad=True) for _ in range(2))
scale, identity_scale, result_scale = (torch.tensor([number]) for number in (0.02, 0.03, 0.05))
result = FixedPointMul.apply(product, scale, 8, result_scale, identity, identity_scale)
gradients = torch.autograd.grad(result.sum(), (product, identity), allow_unused=True)
print("gradient of the product:", gradients[0])
print("gradient of the identity, which is added to it:", gradients[1])
# Backward returns it one place too far on, as if it belonged to identity_scaling_factor.
assert torch.allclose(gradients[0], 1 / result_scale)
assert gradients[1] is None
