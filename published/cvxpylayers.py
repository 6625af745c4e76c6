"""CVXPYlayers: a sparse matrix of SciPy times a tensor."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

for part in ("interfaces", "torch", "utils"):
    bare(enter("cvxpylayers"), f"cvxpylayers.{part}")
absent("cvxpy", Problem=None, Parameter=None, Variable=None)
absent("cvxpylayers.utils.parse_args", LayersContext=None)
absent("cvxpylayers.interfaces.base", SolverInterface=None)


def _sparse(function: Any, x: torch.Tensor) -> Any:
    """A matrix as the compiler of a problem makes it, with as many columns as there are parameters."""
    from scipy.sparse import csr_array

    matrix = random((4, x.shape[0]), 3, torch.float64).detach()
    return function.apply(csr_array((matrix * (matrix > 0)).numpy()), x)


product = Subject("cvxpylayers.torch.cvxpylayer:_ScipySparseMatmul", inputs=drawn((5, 2)), call=_sparse)
