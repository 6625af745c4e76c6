"""NNI 3.0, QATClampRound and BNNClampRound: backward writes into its incoming gradient, and a sum has none left."""

import warnings
from types import SimpleNamespace

import torch
from nni.compression.base.apply_method import BNNClampRound, QATClampRound
from nni.compression.base.target_space import TargetType

warnings.simplefilter("ignore")  # PyTorch warns of writing to expanded tensors
space = SimpleNamespace(_scaler=None, zero_point=0.0, scale=0.5, qmin=-2, qmax=2, type=TargetType.OUTPUT)
for function in (QATClampRound, BNNClampRound):
    x = torch.tensor([-3.0, 0.2, 0.7, 5.0], requires_grad=True)
    (expected,) = torch.autograd.grad(function.apply(x, space), x, torch.ones(4))
    # The gradient of a sum is one number, expanded: a zero that is written anywhere is written everywhere.
    (of_sum,) = torch.autograd.grad(function.apply(x, space).sum(), x)
    print(f"{function.__name__}: from ones the gradient is {expected.tolist()}, from sum() it is {of_sum.tolist()}")
    assert expected.tolist() == [0, 1, 1, 0]
    assert not of_sum.any()

    incoming = torch.ones(4)
    torch.autograd.grad(function.apply(x, space), x, incoming)
    print("  and the incoming gradient afterwards is", incoming.tolist())
    assert incoming.tolist() == [0, 1, 1, 0]
