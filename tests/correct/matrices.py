"""Correct Functions of matrices that inherit quirks of PyTorch's own operations."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.samples import of_shapes

SPEC = "Function"


def _symmetric(seed, size=4):
    """Return a symmetric matrix that is far from singular."""
    root = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (root @ root.mT + size * torch.eye(size, dtype=torch.float64)).requires_grad_()


def _complex(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 3, dtype=torch.complex128, generator=generator).requires_grad_()


class PseudoInverse(Function):
    """Inverts complex matrices; PyTorch's kernel conjugates inside, and may do so lazily.

    PyTorch 2.13's compiler computes something else, so forward is excluded from compiling.
    """

    @staticmethod
    def inputs():
        yield (_complex(1),)

    @staticmethod
    @torch.compiler.disable
    def forward(ctx, matrix):
        if matrix.shape[-1] != matrix.shape[-2]:
            raise ValueError("the gradient below is that of an inverse, which a square matrix has")
        inverse = torch.linalg.pinv(matrix)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx, grad):
        (inverse,) = ctx.saved_tensors
        return -inverse.mH @ grad @ inverse.mH


class SolvesBySymmetry(Function):
    """Reads one triangle of a symmetric matrix; its gradient is symmetric, like that of torch.linalg.cholesky."""

    @staticmethod
    def inputs():
        yield _symmetric(1), torch.randn(4, 2, dtype=torch.float64).requires_grad_()

    @staticmethod
    def forward(ctx, matrix, right):
        factor = torch.linalg.cholesky(matrix)
        solution = torch.cholesky_solve(right, factor)
        ctx.save_for_backward(factor, solution)
        return solution

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        factor, solution = ctx.saved_tensors
        of_right = torch.cholesky_solve(grad, factor)
        product = of_right @ solution.mT
        return -(product + product.mT) / 2, of_right


class EigenvaluesOfSymmetric(Function):
    """Reads the upper triangle of a batch of symmetric matrices; its gradient is symmetric."""

    @staticmethod
    def inputs():
        yield (torch.stack([_symmetric(2).detach(), _symmetric(3).detach()]).requires_grad_(),)

    @staticmethod
    def forward(ctx, matrix):
        values, vectors = torch.linalg.eigh(matrix, UPLO="U")
        ctx.save_for_backward(vectors)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (vectors,) = ctx.saved_tensors
        return vectors @ torch.diag_embed(grad) @ vectors.mT


class PivotedCholesky(Function):
    """Reads one of each pair of mirrored elements, as its pivots say; its gradient is symmetric."""

    @staticmethod
    def inputs():
        yield (_symmetric(5),)

    @staticmethod
    def forward(ctx, matrix):
        order = matrix.diagonal().argsort(descending=True)
        place = order.argsort()
        earlier = place[:, None] <= place[None, :]
        whole = torch.where(earlier, matrix, torch.where(earlier, matrix, 0).mT)
        factor = torch.linalg.cholesky(whole)
        ctx.save_for_backward(factor)
        return factor.diagonal().log().sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (factor,) = ctx.saved_tensors
        return grad * torch.cholesky_inverse(factor) / 2


class SquareRoot(Function):
    """Takes positive definite matrices; eigenvalues that rounding makes negative count as zero.

    Its gradient divides by sums of roots, which are zero if two eigenvalues count as zero.
    """

    @staticmethod
    def inputs():
        yield (_symmetric(6),)
        root = _symmetric(7).detach()[:3]  # a product of matrices need not be symmetric to the last bit
        yield ((root @ root.mT + torch.eye(3, dtype=torch.float64)).requires_grad_(),)

    @staticmethod
    def forward(ctx, matrix):
        values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
        roots = values.clamp(min=0).sqrt()
        ctx.save_for_backward(roots, vectors)
        return vectors @ (roots[:, None] * vectors.mT)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        roots, vectors = ctx.saved_tensors
        inner = vectors.mT @ (grad + grad.mT) / 2 @ vectors
        return vectors @ (inner / (roots + roots[:, None])) @ vectors.mT


class EigenvaluesOfAny(Function):
    """Returns eigenvectors in column order, although PyTorch's kernel announces row order on the meta device."""

    @staticmethod
    def inputs():
        yield (_complex(2),)

    @staticmethod
    def forward(ctx, matrix):
        values, vectors = torch.linalg.eig(matrix)
        ctx.mark_non_differentiable(vectors)
        ctx.save_for_backward(vectors)
        return values, vectors

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        (vectors,) = ctx.saved_tensors
        return torch.linalg.solve(vectors.mH, grad[..., None] * vectors.mH)


class UpperTriangle(Function):
    """Picks by a column of indices: the result ends in a dimension of size 1, whose stride is meaningless."""

    @staticmethod
    def inputs():
        yield (torch.randn(2, 3, 3, dtype=torch.float64).requires_grad_(),)

    @staticmethod
    def forward(ctx, matrix):
        size = matrix.shape[-1]
        ctx.shape = matrix.shape
        chosen = torch.ones(size, size).triu().reshape(-1).nonzero()
        ctx.save_for_backward(chosen)
        return matrix.reshape(matrix.shape[0], -1)[:, chosen]

    @staticmethod
    def backward(ctx, grad):
        (chosen,) = ctx.saved_tensors
        whole = grad.new_zeros(grad.shape[0], ctx.shape[1] * ctx.shape[2])
        whole[:, chosen] = grad
        return whole.reshape(ctx.shape)


class TraceOfSquare(Function):
    """Assumes square matrices without checking: PyTorch's trace accepts any."""

    inputs = of_shapes((4, 4))

    @staticmethod
    def forward(ctx, x):
        ctx.size = x.shape[1]
        return torch.trace(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.eye(ctx.size, dtype=grad.dtype, device=grad.device)


class PermutesRowsOfSquare(Function):
    """Takes a row of indices for each row; without rows, PyTorch accepts an empty index of any shape."""

    @staticmethod
    def inputs():
        order = torch.tensor([[1, 0, 0], [0, 2, 1], [2, 1, 2]])
        yield torch.randn(3, 3, dtype=torch.float64, requires_grad=True), torch.tensor([2, 0, 1]), order

    @staticmethod
    def forward(ctx, x, columns, order):
        ctx.save_for_backward(columns, order)
        picked = x.index_select(1, columns)
        return torch.zeros_like(picked).scatter_add(0, order, picked)

    @staticmethod
    def backward(ctx, grad):
        columns, order = ctx.saved_tensors
        picked = grad.gather(0, order)
        return torch.zeros_like(picked).index_add(1, columns, picked), None, None


class CubeOfSymmetric(Function):
    """Cubes a symmetric matrix; its gradient is correct for symmetric matrices only."""

    @staticmethod
    def inputs():
        root = torch.randn(2, 3, 3, dtype=torch.float64)
        yield ((root + root.mT).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x @ x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad @ x @ x + x @ grad @ x + x @ x @ grad


class OrthogonalAndTriangular(Function):
    """Decomposes a matrix into an orthogonal and a triangular one; its gradient divides by the triangular one.

    The largest number of each column is in the first row: if it comes twice, two rows are equal.
    """

    @staticmethod
    def inputs():
        numbers = [[3.0, 2.0, 4.0], [1.0, -0.5, 1.0], [0.5, 1.0, -1.0]]
        yield (torch.tensor(numbers, dtype=torch.float64, requires_grad=True),)

    @staticmethod
    def forward(ctx, x):
        if x.shape[0] < x.shape[1]:
            raise ValueError("no more columns than rows")
        q, r = torch.linalg.qr(x)
        ctx.save_for_backward(q, r)
        return q, r

    @staticmethod
    @once_differentiable
    def backward(ctx, of_q, of_r):
        q, r = ctx.saved_tensors
        lower = torch.tril(r @ of_r.mT - of_q.mT @ q)
        middle = lower + torch.tril(lower, -1).mT
        return torch.linalg.solve_triangular(r, (of_q + q @ middle).mT, upper=True).mT


class LeastSquares(Function):
    """Solves least squares problems; LAPACK's solver adds up in an order that depends on addresses."""

    inputs = of_shapes((5, 3), (5,))

    @staticmethod
    def forward(ctx, matrix, right):
        if matrix.shape[0] < matrix.shape[1]:
            raise ValueError("fewer rows than columns have many solutions")
        found = torch.linalg.lstsq(matrix, right[:, None]).solution[:, 0]
        ctx.save_for_backward(matrix, right, found)
        return found

    @staticmethod
    def backward(ctx, grad):
        matrix, right, found = ctx.saved_tensors
        weights = torch.linalg.solve(matrix.mT @ matrix, grad)
        moved = matrix @ weights
        return torch.outer(right - matrix @ found, weights) - torch.outer(moved, found), moved
