"""Bugs that the CPU hides: missing synchronization. They run on the emulated device."""

from __future__ import annotations

import torch

from tests.planted._square import Square

SPEC = "Function"
DEVICE = "emulated"


def inputs():
    yield (torch.linspace(1, 2, 6, dtype=torch.float64).reshape(2, 3).requires_grad_(),)


class ReadTooEarly(Square):
    """Copies to the CPU without blocking, and reads the copy before it is complete.

    Breaks: Function.forward.device
    """

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        host = (x * x).to("cpu", non_blocking=True)
        return host.clone().to(x.device)


class StreamWithoutWaiting(Square):
    """Computes in a stream of its own, without synchronizing with the caller's.

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
    """Computes in the default stream, without synchronizing with the caller's.

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
