"""torch-interpol 0.3.0, SplineCoeffND: its filter is symmetric for some bounds alone, and ``inplace`` is not marked."""

import torch
from interpol.autograd import SplineCoeffND
from torch.autograd import gradcheck

field = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
wrong = []
for bound in ("replicate", "zero", "dct1", "dct2", "dft"):
    try:
        gradcheck(lambda x, bound=bound: SplineCoeffND.apply(x, [bound] * 2, [3, 3], 2, False), field)
    except Exception as error:
        wrong.append(bound)
        print(bound, "- gradcheck:", str(error).splitlines()[0])
assert wrong, "mended"

x = (field * 1).detach()
before = x.clone()
SplineCoeffND.apply(x, ["dct2"] * 2, [3, 3], 2, True)
print("inplace=True changes its input:", not torch.equal(x, before), "- version", x._version)
