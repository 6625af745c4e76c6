"""Judge by a declared formula: the intended gradient, if it is not the derivative.

    |backward(g) - formula(args, g)| <= 8 eps |formula(args, g)|

in half precision, where 64 machine epsilons for each element, as elsewhere, would let a doubled gradient pass.
"""

from __future__ import annotations

import torch

from conformance.kit import tolerances
from conformance.kit.judgement import ELSEWHERE, Judgement, Verdict
from conformance.kit.tensors import to_double

NAME = "declared formula"


def judged_by_formula(actual: torch.Tensor, declared: torch.Tensor, precision: float = 0.0) -> Judgement:
    """Compare a gradient with the declared one, in norm.

    ``precision`` is the machine epsilon that they were computed in, if their dtypes promise a finer one.
    """
    one, other = to_double(actual.detach()), to_double(declared.detach())
    eps = max(precision, *(float(torch.finfo(tensor.dtype).eps) for tensor in (actual, declared)))
    allowed = eps * (tolerances.DECLARED_IN_HALF if eps > tolerances.SINGLE else tolerances.DECLARED)
    size, apart = float(other.norm()), float((one - other).norm())
    if size == 0:  # zeros are compared by their elements
        return Judgement("agrees", NAME, ELSEWHERE, error=0.0, resolution=0.0, elsewhere=0.0, calls=1)
    error = apart / size
    # What is not finite in both is compared by its elements.
    verdict: Verdict = "differs" if error > allowed else "agrees"
    return Judgement(verdict, NAME, ELSEWHERE, error=error, resolution=allowed, elsewhere=allowed, noise=eps, calls=1)
