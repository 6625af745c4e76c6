"""PyPose 0.9.5: Functions that set generate_vmap_rule do in forward or backward what vmap cannot."""

import torch
from pypose.lietensor.operation import SO3_Act4, sim3_Exp, so3_Exp
from torch.func import grad, vmap

torch.manual_seed(0)
angles, elements, points = torch.randn(5, 3), torch.randn(5, 7), torch.randn(5, 4)
turns = so3_Exp.apply(angles)
calls = {
    "so3_Exp": lambda: vmap(so3_Exp.apply)(angles),
    "sim3_Exp": lambda: vmap(sim3_Exp.apply)(elements),
    "the gradient of SO3_Act4": lambda: vmap(grad(lambda *both: SO3_Act4.apply(*both).sum()))(turns, points),
}
for name, call in calls.items():
    try:
        call()
    except RuntimeError as error:
        print(f"{name}: {str(error)[:100]}...")
    else:
        raise AssertionError("mended")
