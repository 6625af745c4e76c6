"""Bugs of Functions that change a global setting, some to what it is in most programs."""

from __future__ import annotations

import warnings

import numpy
import torch

from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 2))


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


class SwitchesOneDnnOff(Square):
    """Switches oneDNN off, around a bug of some release, and leaves it off.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.backends.mkldnn.set_flags(False)
        return Square.forward(ctx, x)


class ForbidsFlashAttention(Square):
    """Forbids a kernel of attention in backward, for everybody and forever.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        torch.backends.cuda.enable_flash_sdp(False)
        return Square.backward(ctx, grad)


class FlushesDenormalNumbers(Square):
    """Has tiny numbers taken for zero, which is faster.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.set_flush_denormal(True)
        return Square.forward(ctx, x)


class SilencesNumPy(Square):
    """Divides in NumPy where zeros may be, and tells NumPy to say nothing of it from then on.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        numpy.seterr(divide="ignore", invalid="ignore")
        return Square.forward(ctx, x)


class SilencesWarnings(Square):
    """Sweeps away all warnings of the program, for the sake of one.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        warnings.simplefilter("ignore")
        return Square.forward(ctx, x)
