"""SpeechBrain 1.1.2, QuaternionLinearCustomBackward: what requires no grad changes results and gradients."""

import torch
from speechbrain.nnet.quaternion_networks.q_ops import QuaternionLinearCustomBackward

x = torch.randn(3, 8)
weights = [torch.randn(2, 1) for _ in range(4)]
bias = torch.ones(4)
trained = QuaternionLinearCustomBackward.apply(x, *weights, bias.clone().requires_grad_())
frozen = QuaternionLinearCustomBackward.apply(x, *weights, bias)
print("with a frozen bias the result differs by", (trained - frozen).abs().max().item())
assert torch.allclose(trained - frozen, bias)

weights[1].requires_grad_()
result = QuaternionLinearCustomBackward.apply(x, *weights, bias)
(gradient,) = torch.autograd.grad(result.sum(), weights[1], allow_unused=True)
print("the gradient of the second weight, which alone requires grad:", gradient)
assert gradient is None
