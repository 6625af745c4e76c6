"""BrainCog: surrogate gradients for spikes. Their spikes are float32."""

from __future__ import annotations

import torch

from conformance.kit.declared import sloped, straight
from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("braincog"), "braincog.base.strategy")

_X, _ALPHA = drawn((4, 3), dtype=torch.float32), drawn((4, 3), 2.0, dtype=torch.float32)
_NEAR = sloped(lambda x: (x.abs() < 0.5).float())

sigmoid = Subject(
    "braincog.base.strategy.surrogate:sigmoid",
    inputs=_ALPHA,
    formula=sloped(lambda x, alpha: alpha * torch.sigmoid(alpha * x) * torch.sigmoid(-alpha * x)),
)
gate = Subject(
    "braincog.base.strategy.surrogate:gate",
    inputs=_ALPHA,
    formula=sloped(lambda x, alpha: (x.abs() < 1 / alpha).float()),
)
quadratic_gate = Subject(
    "braincog.base.strategy.surrogate:quadratic_gate",
    inputs=_ALPHA,
    formula=sloped(lambda x, alpha: (alpha - alpha**2 * x.abs()).clamp(min=0)),
)
straight_through = Subject("braincog.base.strategy.surrogate:straight_through_estimator", inputs=_X, formula=straight)
stdp = Subject("braincog.base.strategy.surrogate:stdp", inputs=_X, formula=sloped(lambda x: (x > 0).float()))
backeigate = Subject("braincog.base.strategy.surrogate:backeigate", inputs=_X, formula=_NEAR)
ei = Subject("braincog.base.strategy.surrogate:ei", inputs=_X, formula=_NEAR)
