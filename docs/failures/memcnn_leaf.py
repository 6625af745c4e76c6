"""MemCNN 1.5.2, InvertibleCheckpointFunction: backward sets ``.grad`` of its input; a leaf has its gradient twice."""

import torch
from memcnn.models.revop import InvertibleCheckpointFunction

x = torch.ones(3, requires_grad=True)
(result,) = InvertibleCheckpointFunction.apply(lambda x: 2 * x, lambda y: y / 2, True, 1, False, 1, x)
result.sum().backward()
assert x.grad is not None
print("the gradient of 2 * x is 2; backward leaves", x.grad.tolist())
assert x.grad.tolist() == [4.0, 4.0, 4.0], "mended"
