"""DeepInverse: activations that are splines, and their derivatives."""

from __future__ import annotations

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("deepinv"), "deepinv.models")
absent("deepinv.models.base", Reconstructor=torch.nn.Module)
absent("deepinv.models.utils", load_state_dict_from_url=None)
absent("deepinv.optim.linear", conjugate_gradient=None)
absent("deepinv.physics", Denoising=None, LinearPhysics=None)
absent("deepinv.utils.decorators", _deprecated_argument=lambda *_, **__: lambda function: function)

#: Where the knots of both channels lie, how many each has, and where those of a channel begin.
low, high = torch.tensor([-3.0, 3.0], dtype=torch.float64)
knots = (low, high, 8, torch.tensor([0, 8]))

linear = Subject("deepinv.models.deal:LinearSplineFunc", inputs=drawn((1, 2, 1, 3, 3), (2, 8), *knots))
slope = Subject("deepinv.models.deal:LinearSplineDerivativeFunc", inputs=drawn((1, 2, 1, 3, 3), (2, 8), *knots))
quadratic = Subject("deepinv.models.deal:QuadraticSplineFunc", inputs=drawn((1, 2, 1, 3, 3), (2, 8), *knots))
