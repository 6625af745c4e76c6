"""torch.testing, NumpyExp_: it writes through a NumPy array, which on an accelerator is a copy of the input."""

import torch
from torch.testing._internal.autograd_function_db import NumpyExp_

from conformance.emulated import build, load

load(build())
for device in ("cpu", "emulated"):
    x = torch.zeros(3, device=device)
    NumpyExp_.apply(x)
    print(f"{device}: exp of zeros, in place, is {x.tolist()}")
assert x.tolist() == [0, 0, 0]
