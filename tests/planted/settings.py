"""Bugs of Functions that change a global setting of PyTorch, to what it is in most programs."""

from __future__ import annotations

import torch

from tests.planted._square import Square

SPEC = "Function"


def inputs():
    yield (torch.randn(3, 2, dtype=torch.float64, requires_grad=True),)


class LimitsTheThreads(Square):
    """Computes on one thread, and leaves it at that.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.set_num_threads(1)
        return Square.forward(ctx, x)


class SwitchesAnomalyModeOff(Square):
    """Switches anomaly detection off, which would slow it down.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.autograd.set_detect_anomaly(False)
        return Square.forward(ctx, x)


class GoesBackToFloat32(Square):
    """Puts the default dtype back to float32, whatever it was.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        torch.set_default_dtype(torch.float64)
        gradient = Square.backward(ctx, grad)
        torch.set_default_dtype(torch.float32)
        return gradient


class AllowsWhatIsNotDeterministic(Square):
    """Allows algorithms that are not deterministic in backward, because some operation has no other.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        torch.use_deterministic_algorithms(False)
        return Square.backward(ctx, grad)
