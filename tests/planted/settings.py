"""Bugs of Functions that change a global setting, some of them to its usual value."""

from __future__ import annotations

import warnings

import numpy
import torch

from tests.planted._square import Square
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 2))


class LimitsTheThreads(Square):
    """Sets the number of threads to one, and does not restore it.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.set_num_threads(1)
        return Square.forward(ctx, x)


class SwitchesAnomalyModeOff(Square):
    """Turns anomaly detection off, and does not restore it.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.autograd.set_detect_anomaly(False)
        return Square.forward(ctx, x)


class GoesBackToFloat32(Square):
    """Resets the default dtype to float32, whatever it was.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        torch.set_default_dtype(torch.float64)
        gradient = Square.backward(ctx, grad)
        torch.set_default_dtype(torch.float32)
        return gradient


class AllowsWhatIsNotDeterministic(Square):
    """Turns deterministic algorithms off in backward, and does not restore that.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        torch.use_deterministic_algorithms(False)
        return Square.backward(ctx, grad)


class SwitchesOneDnnOff(Square):
    """Turns oneDNN off, and does not restore it.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.backends.mkldnn.set_flags(False)
        return Square.forward(ctx, x)


class ForbidsFlashAttention(Square):
    """Turns flash attention off in backward, and does not restore it.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def backward(ctx, grad):
        torch.backends.cuda.enable_flash_sdp(False)
        return Square.backward(ctx, grad)


class FlushesDenormalNumbers(Square):
    """Turns flushing of denormal numbers on, and does not restore it.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        torch.set_flush_denormal(True)
        return Square.forward(ctx, x)


class SilencesNumPy(Square):
    """Silences NumPy's errors on division, and does not restore them.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        numpy.seterr(divide="ignore", invalid="ignore")
        return Square.forward(ctx, x)


class SilencesWarnings(Square):
    """Silences all warnings of the program.

    Breaks: Function.forward.deterministic
    """

    @staticmethod
    def forward(ctx, x):
        warnings.simplefilter("ignore")
        return Square.forward(ctx, x)
