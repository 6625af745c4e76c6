"""DALLE-pytorch 1.6.6, _ReversibleFunction: blocks in eval mode have no backward."""

import torch
from dalle_pytorch.reversible import ReversibleSequence

torch.manual_seed(0)
x = torch.randn(2, 3, 4, requires_grad=True)
for training in (True, False):
    net = ReversibleSequence([(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)) for _ in range(2)]).train(training)
    try:
        net(x).sum().backward()
    except TypeError as error:
        print("in eval mode:", error)
        assert not training
    else:
        print("in train mode, the gradient of x has the shape", tuple(x.grad.shape))
        assert training, "mended"
