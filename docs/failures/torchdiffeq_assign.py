"""torchdiffeq 0.2.5, _UncheckedAssign: the overwritten entries still hand their gradient to the old values."""

import torch
from torch.autograd import gradcheck
from torchdiffeq._impl.rk_common import _UncheckedAssign

scratch = torch.randn(3, dtype=torch.float64, requires_grad=True)
value = torch.randn((), dtype=torch.float64, requires_grad=True)

result = _UncheckedAssign.apply(scratch * 1, value, 0)
result.sum().backward()
print("gradient of scratch:", scratch.grad.tolist(), "- entry 0 was overwritten and cannot matter")
assert scratch.grad[0] == 1
try:
    gradcheck(lambda scratch, value: _UncheckedAssign.apply(scratch * 1, value, 0), (scratch, value))
except Exception as error:
    print(str(error).splitlines()[0])
else:
    raise AssertionError("mended")
