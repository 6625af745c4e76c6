"""Three Functions of PyTorch's own test collection fail PyTorch's own gradcheck."""

import torch
from torch.autograd import gradcheck
from torch.testing._internal import autograd_function_db as db

x = torch.tensor([1.3, 0.9, 1.7], dtype=torch.float64, requires_grad=True)


def fails(function, *args) -> bool:
    try:
        return not gradcheck(function, args)
    except Exception as error:
        print(f"  {str(error).strip().splitlines()[0]}")
        return True


print("CubeGenVmap: backward adds 6 * dinput, whatever the gradient of the second output is")
assert fails(db.CubeGenVmap.apply, x)
print("NumpyCubeNotComposable: backward returns 3 x**2 and does not multiply by the incoming gradient")
assert fails(lambda x: 2 * db.NumpyCubeNotComposable.apply(x)[0], x)
print("NumpySort: forward returns its input unsorted, backward is that of a sort")
print("  NumpySort of [1.3, 0.9, 1.7]:", db.NumpySort.apply(x, 0)[0].tolist())
assert fails(lambda x: db.NumpySort.apply(x, 0)[0], x)
