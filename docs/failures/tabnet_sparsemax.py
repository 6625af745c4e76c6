"""TabNet 4.1.0 and pytorch-widedeep 1.7.0, SparsemaxFunction: forward changes its input, and does not say so."""

import importlib
from importlib.util import find_spec

import torch

NAMES = ("pytorch_tabnet.sparsemax", "pytorch_widedeep.models.tabular.tabnet.sparsemax")
found = [name for name in NAMES if find_spec(name.partition(".")[0])]
assert found, "neither package is installed"
for name in found:
    function = importlib.import_module(name).SparsemaxFunction
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    function.apply(x, -1)
    print(name, "- the input was [[1, 2]] and is", x.tolist())
    assert x.tolist() != [[1.0, 2.0]]

    scores = x.exp()
    try:
        function.apply(scores, -1).sum().backward()
    except RuntimeError as error:
        print(name, "- exp needs its result for backward:", str(error).partition(":")[0])
    else:
        raise AssertionError("mended")
