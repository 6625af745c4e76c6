"""TorchRL: a hyperbolic tangent that stays off its limits, and its inverse."""

from __future__ import annotations

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("torchrl"), "torchrl.modules.distributions")
absent("tensordict", is_tensor_collection=None, TensorDict=None, TensorDictBase=object)
absent("tensordict.nn", composite_lp_aggregate=None, CompositeDistribution=object)
absent("torchrl._utils", logger=None, VERBOSE=False)


def inside(shape: tuple[int, ...]) -> torch.Tensor:
    """Numbers between -0.9 and 0.9, of which the inverse exists."""
    return torch.linspace(-0.9, 0.9, torch.Size(shape).numel(), dtype=torch.float64).view(shape).requires_grad_()


tanh = Subject("torchrl.modules.distributions.utils:_SafeTanh", inputs=drawn((4, 3), 1e-4))
tanh_plain = Subject("torchrl.modules.distributions.utils:_SafeTanhNoEps", inputs=drawn((4, 3)))
atanh = Subject("torchrl.modules.distributions.utils:_SafeaTanh", inputs=lambda: [(inside((4, 3)), 1e-4)])
atanh_plain = Subject("torchrl.modules.distributions.utils:_SafeaTanhNoEps", inputs=lambda: [(inside((4, 3)),)])
