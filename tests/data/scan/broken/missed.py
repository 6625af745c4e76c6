"""Changes of gradients that come about by other ways than a plain line of assignments."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch.autograd import Function


class TurnedAway(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        if isinstance(grad, Sequence):
            grad = grad[0]
        else:
            grad.mul_(2)  # expect: Function.backward.grads-untouched certain
        return grad


class NoParameter(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        if not isinstance(grad, torch.nn.Parameter):
            grad.mul_(2)  # expect: Function.backward.grads-untouched certain
        return grad


class FoundInALoop(Function):
    @staticmethod
    def forward(ctx, x, n):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        found = None
        for i in range(3):
            if i == 2:
                found = grad
                break
        found.mul_(2)  # expect: Function.backward.grads-untouched likely
        return found, None


class FoundAndGoesOn(Function):
    @staticmethod
    def forward(ctx, x, n):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        found = None
        for i in range(3):
            if i == 2:
                found = grad
                continue
        found.mul_(2)  # expect: Function.backward.grads-untouched likely
        return found, None


class UntilItIsFound(Function):
    @staticmethod
    def forward(ctx, x, n):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        while True:
            if grad.dim() < 9:
                found = grad
                break
        found.mul_(2)  # expect: Function.backward.grads-untouched certain
        return found, None


class OfTheRoundBefore(Function):
    @staticmethod
    def forward(ctx, x, n):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        last = None
        for _ in range(3):
            if last is not None:
                last.mul_(2)  # expect: Function.backward.grads-untouched likely
            last = grad
        return grad, None


class MarkedElements(Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        grad[~mask] *= 0  # expect: Function.backward.grads-untouched certain
        return grad, None


class FromTheEnd(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        last = grad[-1]
        last.mul_(2)  # expect: Function.backward.grads-untouched certain
        return grad


class PlusItself(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        same = +grad
        same.mul_(2)  # expect: Function.backward.grads-untouched certain
        return same


class OfTwo(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        own, wide = torch.broadcast_tensors(torch.ones(3), grad)
        wide.mul_(2)  # expect: Function.backward.grads-untouched certain
        return own


class ByName(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        ways = {"own": grad.clone(), "theirs": grad}
        ways["theirs"].mul_(2)  # expect: Function.backward.grads-untouched certain
        return ways["own"]


class Flattened(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        same = torch.as_tensor(grad)
        same.mul_(2)  # expect: Function.backward.grads-untouched likely
        return same


class TurnedByAnEquation(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        turned = torch.einsum("ij->ji", grad)
        turned.mul_(2)  # expect: Function.backward.grads-untouched likely
        return turned


class Bounded(Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return F.relu(grad, inplace=True)  # expect: Function.backward.grads-untouched certain


class StableSoftmax(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.softmax(-1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        shift = x.detach().amax(-1, keepdim=True)  # expect: Function.backward.double possible
        e = (x - shift).exp()
        p = e / e.sum(-1, keepdim=True)
        return p * (grad - (grad * p).sum(-1, keepdim=True))


class StableSoftmaxByMax(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.softmax(-1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        shift = torch.max(x, -1, keepdim=True)[0].detach()  # expect: Function.backward.double possible
        x = x - shift
        p = x.exp() / x.exp().sum(-1, keepdim=True)
        return p * (grad - (grad * p).sum(-1, keepdim=True))


class ScaledByItsMaximum(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / x.amax()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / x.detach().amax()  # expect: Function.backward.double likely
