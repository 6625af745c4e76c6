"""Correct Functions that take or return sparse tensors."""

from __future__ import annotations

import torch
from torch.autograd import Function

SPEC = "Function"


class SparseGradient(Function):
    """Looks up rows of a table; the gradient is sparse, as for torch.nn.functional.embedding(sparse=True)."""

    @staticmethod
    def inputs():
        yield torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.tensor([1, 3, 4])

    @staticmethod
    def forward(ctx, table, rows):
        ctx.save_for_backward(rows)
        ctx.shape = table.shape
        return table[rows]

    @staticmethod
    def backward(ctx, grad):
        (rows,) = ctx.saved_tensors
        return torch.sparse_coo_tensor(rows[None], grad, ctx.shape), None


class SparseInput(Function):
    """Multiplies a sparse matrix by a dense one; only the dense one gets a gradient."""

    @staticmethod
    def inputs():
        matrix = torch.randn(4, 3, dtype=torch.float64).relu().to_sparse()
        yield matrix, torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    @staticmethod
    def forward(ctx, matrix, x):
        ctx.save_for_backward(matrix)
        return torch.sparse.mm(matrix, x)

    @staticmethod
    def backward(ctx, grad):
        (matrix,) = ctx.saved_tensors
        return None, torch.sparse.mm(matrix.t(), grad)


class SparseInputWithGradient(Function):
    """Doubles a sparse matrix and returns it dense, with a sparse gradient."""

    @staticmethod
    def inputs():
        matrix = torch.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=torch.float64).to_sparse()
        yield (matrix.requires_grad_(),)

    @staticmethod
    def forward(ctx, matrix):
        ctx.save_for_backward(matrix)
        return matrix.to_dense() * 2

    @staticmethod
    def backward(ctx, grad):
        (matrix,) = ctx.saved_tensors
        return grad.mul(2).sparse_mask(matrix.coalesce())


class SparseInputDenseGradient(SparseInputWithGradient):
    """Doubles a sparse matrix and returns it dense, with a dense gradient."""

    inputs = SparseInputWithGradient.inputs

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class SparseResult(Function):
    """Doubles a sparse matrix and returns it sparse."""

    inputs = SparseInputWithGradient.inputs

    @staticmethod
    def forward(ctx, matrix):
        return matrix * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
