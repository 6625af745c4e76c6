"""Bugs that the CPU hides: results that nobody waits for. They run on the emulated device."""

from __future__ import annotations

import torch

from tests.planted._square import Square

SPEC = "Function"
DEVICE = "emulated"


def inputs():
    yield (torch.linspace(1, 2, 6, dtype=torch.float64).reshape(2, 3).requires_grad_(),)


class ReadTooEarly(Square):
    """Forward copies without blocking, and reads the copy before anybody has waited for it.

    Breaks: Function.forward.device
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        host = (x * x).to("cpu", non_blocking=True)
        return host.clone().to(x.device)


class StreamWithoutWaiting(Square):
    """Forward computes in a stream of its own, which waits for nobody, and for which nobody waits.

    Breaks: Function.forward.device
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if x.device.type == "cpu":
            return x * x
        with torch.Stream(x.device):
            return x * x


class DefaultStream(Square):
    """Forward computes in the default stream and takes that for the caller's: in another stream it reads too early.

    Breaks: Function.forward.device
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if x.device.type == "cpu":
            return x * x
        own = torch.Stream(x.device)
        default = torch.Stream(stream_id=0, device_index=own.device_index, device_type=own.device_type)
        with default:
            return x * x
