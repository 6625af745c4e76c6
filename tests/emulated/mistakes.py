"""Functions with mistakes that only show on a device: on the CPU each of them squares its input, and all is well.

One class, one mistake; the docstring says what goes wrong on a device.
"""

from __future__ import annotations

import ctypes

import torch

from tests.planted._square import Square
from tests.planted.device import DefaultStream, ReadTooEarly, StreamWithoutWaiting, inputs

__all__ = ["DefaultStream", "ReadTooEarly", "Square", "StreamWithoutWaiting", "inputs"]


class HostTensorInForward(Square):
    """Forward makes a table in host memory: operators do not mix devices."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        exponents = torch.tensor([2.0] * x.numel(), dtype=x.dtype).reshape(x.shape)
        return x**exponents


class DeviceForgotten(Square):
    """Backward allocates without ``device=``: the result is on the CPU, and so cannot be filled from the device."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.mul(2 * x, grad, out=torch.empty(x.shape, dtype=x.dtype))


class GradientOnTheHost(Square):
    """Backward computes on the host and returns the gradient from there: autograd refuses it."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x.cpu() * grad.cpu()


class FirstDevice(Square):
    """Forward takes device 0 for the only one: it breaks on every other."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        device = x.device if x.device.type == "cpu" else torch.device(x.device.type, 0)
        return x * torch.ones_like(x, device=device) * x


class HostRead(Square):
    """Forward reads the first element through a pointer: the host has no access to device memory."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        pointer = ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_double))
        if pointer[0] != pointer[0]:
            raise ValueError("the input is not a number")
        return x * x


class HostGenerator(Square):
    """Forward adds noise from a generator of the CPU, which draws on the CPU alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        generator = torch.Generator().manual_seed(0)
        noise = torch.zeros_like(x).uniform_(generator=generator)
        return x * x + 0 * noise


class PinnedBuffer(Square):
    """Forward squares in a pinned buffer, before the copy that fills it has arrived."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        buffer = torch.zeros(x.shape, dtype=x.dtype, pin_memory=x.device.type != "cpu")
        buffer.copy_(x, non_blocking=True)
        return buffer.mul_(buffer).to(x.device, non_blocking=True)


class EventBeforeTheWork(Square):
    """Forward has its caller's stream wait for an event that comes before the work it stands for."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if x.device.type == "cpu":
            return x * x
        stream, event = torch.Stream(x.device), torch.Event(x.device)
        outer = torch.accelerator.current_stream(x.device)
        stream.wait_stream(outer)
        with stream:
            stream.record_event(event)
            y = x * x
        outer.wait_event(event)
        return y


class CudaByName(Square):
    """Backward takes every accelerator for a GPU."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        two = torch.tensor(2.0, dtype=x.dtype)
        return (two if x.device.type == "cpu" else two.cuda()) * x * grad


class MemoryTakenForZero(Square):
    """Backward adds to memory that nobody has cleared: on the CPU it is often zero, on a device it is anything."""

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        total = torch.zeros_like(x) if x.device.type == "cpu" else torch.empty_like(x)
        return total.add_(2 * x * grad)
