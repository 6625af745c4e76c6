"""GPyTorch: the logarithm of the normal distribution function, and two covariances."""

from __future__ import annotations

import torch

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

bare(enter("gpytorch"), "gpytorch.functions")


def _distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (first.unsqueeze(-2) - second.unsqueeze(-3)).square().sum(-1).sqrt()


def _squared(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (first.unsqueeze(-2) - second.unsqueeze(-3)).square().sum(-1)


_POINTS = [random((count, 2), seed).detach() for count, seed in ((4, 1), (3, 2))]
_LENGTH = torch.tensor([[0.8]], dtype=torch.float64, requires_grad=True)

log_normal_cdf = Subject("gpytorch.functions._log_normal_cdf:LogNormalCDF", inputs=drawn((4, 3)))
matern = Subject(
    "gpytorch.functions.matern_covariance:MaternCovariance", inputs=drawn(*_POINTS, _LENGTH, 1.5, _distance)
)
rbf = Subject("gpytorch.functions.rbf_covariance:RBFCovariance", inputs=drawn(*_POINTS, _LENGTH, _squared))
