"""Correct Functions that solve an equation, which may be ill-conditioned."""

from __future__ import annotations

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SPEC = "Function"


def _spd(smallest):
    """Return a symmetric matrix, the worse conditioned the smaller its least eigenvalue."""
    root = torch.randn(6, 6, dtype=torch.float64)
    return root @ root.mT + smallest * torch.eye(6, dtype=torch.float64)


def _contraction():
    return (0.2 * torch.randn(3, 3, dtype=torch.float64)).requires_grad_()


def _conjugate_gradients(matrix, right, tolerance):
    solution, residual = torch.zeros_like(right), right.clone()
    step, size = residual.clone(), residual @ residual
    for _ in range(10 * right.numel()):
        if size.sqrt() <= tolerance * right.norm():
            break
        pushed = matrix @ step
        length = size / (step @ pushed)
        solution, residual = solution + length * step, residual - length * pushed
        size, before = residual @ residual, size
        step = residual + size / before * step
    return solution


class ConjugateGradients(Function):
    """Solves with a matrix that needs no gradient; an expanded one is singular."""

    @staticmethod
    def inputs():
        for _ in range(4):
            yield _spd(2.0), torch.randn(6, dtype=torch.float64, requires_grad=True), 1e-6

    @staticmethod
    def forward(ctx, matrix, right, tolerance):
        ctx.tolerance = tolerance
        ctx.save_for_backward(matrix)
        return _conjugate_gradients(matrix, right, tolerance)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (matrix,) = ctx.saved_tensors
        return None, _conjugate_gradients(matrix.mT, grad, ctx.tolerance), None


class SolvesWithAConstant(Function):
    """Solves with an ill-conditioned matrix that needs no gradient: half precision leaves few digits."""

    @staticmethod
    def inputs():
        yield _spd(1e-3), torch.randn(6, dtype=torch.float64, requires_grad=True)

    @staticmethod
    def forward(ctx, matrix, right):
        ctx.save_for_backward(matrix)
        return _eliminated(matrix, right)

    @staticmethod
    def backward(ctx, grad):
        (matrix,) = ctx.saved_tensors
        return None, _eliminated(matrix.mT, grad)


def _eliminated(matrix, right):
    """Solve by Gaussian elimination in the given dtype."""
    if len(matrix) != right.numel():
        raise ValueError("a square matrix is needed, and as many numbers as it has rows")
    rows = [torch.cat([row, value.reshape(1)]) for row, value in zip(matrix, right, strict=True)]
    for pivot in range(len(rows)):
        rows[pivot] = rows[pivot] / rows[pivot][pivot]
        for other in range(len(rows)):
            if other != pivot:
                rows[other] = rows[other] - rows[other][pivot] * rows[pivot]
    return torch.stack([row[-1] for row in rows])


class FixedPointOfAContraction(Function):
    """Iterates until nothing changes, which takes a matrix of a norm below one."""

    @staticmethod
    def inputs():
        yield _contraction(), torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    @staticmethod
    def forward(ctx, matrix, x):
        point = torch.zeros_like(x)
        for _ in range(100):
            point = torch.tanh(point @ matrix + x)
        ctx.save_for_backward(matrix, point)
        return point

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        matrix, point = ctx.saved_tensors
        slope = 1 - point * point
        found = grad.clone()
        for _ in range(100):
            found = grad + (found * slope) @ matrix.mT
        return point.mT @ (found * slope), found * slope


class SolvesByASeries(Function):
    """Adds up the powers of a contraction."""

    @staticmethod
    def inputs():
        yield _contraction(), torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    @staticmethod
    def forward(ctx, matrix, right):
        solution = right.clone()
        for _ in range(100):
            solution = right + matrix @ solution
        ctx.save_for_backward(matrix, solution)
        return solution

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        matrix, solution = ctx.saved_tensors
        found = grad.clone()
        for _ in range(100):
            found = grad + matrix.mT @ found
        return found @ solution.mT, found


def _until_still(step, value, tolerance=1e-13):
    for _ in range(500):
        value, before = step(value), value
        if (value - before).abs().max() < tolerance:
            break
    return value


class StopsWithinATolerance(Function):
    """Iterates until changes are below an absolute tolerance, which leaves more of a loss scaled down."""

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(7)
        matrix = 0.2 * torch.randn(3, 3, dtype=torch.float64, generator=generator)
        x = torch.randn(2, 3, dtype=torch.float64, generator=generator)
        yield matrix.requires_grad_(), x.requires_grad_()

    @staticmethod
    def forward(ctx, matrix, x):
        point = _until_still(lambda point: torch.tanh(point @ matrix + x), torch.zeros_like(x))
        ctx.save_for_backward(matrix, point)
        return point

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        matrix, point = ctx.saved_tensors
        slope = 1 - point * point
        found = _until_still(lambda found: grad + (found * slope) @ matrix.mT, grad)
        return point.mT @ (found * slope), found * slope


class StopsWithinALargerTolerance(Function):
    """Does so within ten times that tolerance, and more is left where rounding meets the smaller loss."""

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(3, 4, dtype=torch.float64, generator=generator)
        matrix = 0.2 * torch.randn(4, 4, dtype=torch.float64, generator=generator)
        yield x.requires_grad_(), matrix.requires_grad_()

    @staticmethod
    def forward(ctx, x, matrix):
        point = _until_still(lambda point: torch.tanh(point @ matrix + x), torch.zeros_like(x), 1e-12)
        ctx.save_for_backward(point, matrix)
        return point

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        point, matrix = ctx.saved_tensors
        slope = 1 - point * point
        found = _until_still(lambda found: grad + (found * slope) @ matrix.mT, grad, 1e-12)
        return found * slope, point.mT @ (found * slope)


def _halved(x, low, high):
    middle = (low + high) / 2
    is_below = torch.sigmoid(x + middle).sum(1, keepdim=True) < 2
    return torch.where(is_below, middle, low), torch.where(is_below, high, middle)


class BisectsWithinATolerance(Function):
    """Moves each row so that two are chosen, to about 1e-5: short steps show how it stops, not what it solves."""

    @staticmethod
    def inputs():
        generator = torch.Generator().manual_seed(4)
        yield (torch.randn(3, 6, dtype=torch.float64, generator=generator).requires_grad_(),)

    @staticmethod
    def forward(ctx, x):
        if x.shape[1] < 4:
            raise ValueError("at least four columns are needed")
        low, high = -x.amax(1, keepdim=True) - 9, -x.amin(1, keepdim=True) + 9
        for _ in range(20):
            low, high = _halved(x, low, high)
        chosen = torch.sigmoid(x + (low + high) / 2)
        ctx.save_for_backward(chosen)
        return chosen

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (chosen,) = ctx.saved_tensors
        slope = chosen * (1 - chosen)
        return slope * (grad - (slope * grad).sum(1, keepdim=True) / slope.sum(1, keepdim=True))


class BisectsUntilItIsThere(BisectsWithinATolerance):
    """Goes on until the bounds are near each other, which they never are in half precision."""

    inputs = BisectsWithinATolerance.inputs

    @staticmethod
    def forward(ctx, x):
        if x.shape[1] < 4:
            raise ValueError("at least four columns are needed")
        low, high = -x.amax(1, keepdim=True) - 9, -x.amin(1, keepdim=True) + 9
        while bool((high - low > 1e-10).any()):
            low, high = _halved(x, low, high)
        chosen = torch.sigmoid(x + (low + high) / 2)
        ctx.save_for_backward(chosen)
        return chosen

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return BisectsWithinATolerance.backward(ctx, grad)


class IteratesUntilItStandsStill(Function):
    """Iterates a contraction until it stands still, which it never does with a large weight."""

    @staticmethod
    def inputs():
        yield _contraction(), torch.randn(3, dtype=torch.float64, requires_grad=True)

    @staticmethod
    def forward(ctx, weight, bias):
        state, before = torch.tanh(bias), torch.zeros_like(bias)
        while bool((state - before).norm() > 1e-14):
            state, before = torch.tanh(weight @ state + bias), state
        ctx.save_for_backward(weight, state)
        return state

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        weight, state = ctx.saved_tensors
        slope = 1 - state * state
        pushed = torch.eye(len(state), dtype=state.dtype) - slope.unsqueeze(1) * weight
        found = slope * torch.linalg.solve(pushed.mT, grad)
        return torch.outer(found, state), found


class IteratesBackUntilItIsThere(Function):
    """Solves in backward by an iteration that goes on until what is left is small next to the gradient."""

    @staticmethod
    def inputs():
        yield (0.2 * torch.randn(6, 6, dtype=torch.float64)).requires_grad_(), torch.randn(6, dtype=torch.float64)

    @staticmethod
    def forward(ctx, weight, bias):
        matrix = torch.eye(len(weight), dtype=weight.dtype) + torch.tanh(weight) / len(weight)
        solution = torch.linalg.solve(matrix, bias)
        ctx.save_for_backward(weight, matrix, solution)
        return solution

    @staticmethod
    def enough(grad):
        return 1e-12 * grad.norm()

    @classmethod
    def back(cls, ctx, grad):
        weight, matrix, solution = ctx.saved_tensors
        found = grad.clone()
        while (left := grad - matrix.mT @ found).norm() > cls.enough(grad):
            found = found + left
        return -torch.outer(found, solution) * (1 - torch.tanh(weight) ** 2) / len(weight), None

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return IteratesBackUntilItIsThere.back(ctx, grad)


class SolvesByAKroneckerProduct(Function):
    """Solves a Lyapunov equation by one linear system, whose matrix has the fourth power of a size as elements."""

    @staticmethod
    def inputs():
        shifted = 4 * torch.eye(3, dtype=torch.float64) + torch.randn(3, 3, dtype=torch.float64)
        yield shifted.requires_grad_(), torch.randn(3, 3, dtype=torch.float64, requires_grad=True)

    @staticmethod
    def solved(matrix, right):
        if matrix.shape != right.shape or len(matrix) != len(matrix.mT):
            raise ValueError("two square matrices of one size")
        matrix, one = matrix.contiguous(), torch.eye(len(matrix), dtype=matrix.dtype)
        system = torch.kron(matrix, one) + torch.kron(one, matrix)
        return torch.linalg.solve(system, right.reshape(-1)).reshape(right.shape)

    @staticmethod
    def forward(ctx, matrix, right):
        solution = SolvesByAKroneckerProduct.solved(matrix, right)
        ctx.save_for_backward(matrix, solution)
        return solution

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        matrix, solution = ctx.saved_tensors
        back = SolvesByAKroneckerProduct.solved(matrix.mT, grad)
        return -(back @ solution.mT + back.mT @ solution), back
