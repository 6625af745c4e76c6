"""DeepChem: eigenvectors where eigenvalues may be equal, and occupation numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.inputs import drawn
from conformance.kit.subject import Subject
from published.packages import absent, bare, enter

bare(enter("deepchem"), "deepchem.utils.differentiation_utils")
NAMES = "LinearOperator get_bcasted_dims MatrixLinearOperator set_default_option get_and_pop_keys dummy_context_manager"
absent("deepchem.utils.differentiation_utils", **dict.fromkeys((*NAMES.split(), "get_method", "solve"), object))
absent("deepchem.utils.pytorch_utils", tallqr=None, to_fortran_order=None)


def _symmetric(function: Any, matrix: Any) -> Any:
    """Eigenvalues, and what eigenvectors span: their signs are free."""
    values, vectors = function.apply(matrix + matrix.mT)
    return values, vectors.square()


def _electrons() -> Iterator[tuple[Any, ...]]:
    yield torch.tensor(2.5, dtype=torch.float64, requires_grad=True), 2, 3, 4, torch.float64, torch.device("cpu")


eigenvectors = Subject(
    "deepchem.utils.differentiation_utils.symeig:degen_symeig", inputs=drawn((3, 3)), call=_symmetric
)
occupation = Subject("deepchem.utils.safeops_utils:_OccNumber", inputs=_electrons)
