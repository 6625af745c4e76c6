"""Backward on the emulated device: gradients as on the CPU, in a thread of the device and in forward's stream."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.emulated.processes import on_device


class Square(torch.autograd.Function):
    where = []

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        Square.where.append((threading.get_ident(), torch.accelerator.current_device_index()))
        Square.streams = torch.accelerator.current_stream()
        return 2 * ctx.saved_tensors[0] * grad


def network(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double().to(device)
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4).to(device).requires_grad_()
    model(x).square().sum().backward()
    return [x.grad.cpu(), *(parameter.grad.cpu() for parameter in model.parameters())]


@on_device
def test_gradients_are_those_of_the_cpu():
    for actual, expected in zip(network("emulated:1"), network("cpu"), strict=True):
        assert torch.allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("index", [0, 1])
@on_device
def test_backward_runs_in_a_thread_of_the_device(index):
    x = torch.ones(3, device=f"emulated:{index}", requires_grad=True)
    Square.apply(x).sum().backward()
    ((thread, device),) = Square.where
    assert thread != threading.get_ident()
    assert device == index
    assert x.grad.tolist() == [2, 2, 2]


@on_device
def test_backward_runs_in_the_stream_of_forward():
    stream = torch.Stream("emulated")
    x = torch.ones(3, device="emulated", requires_grad=True)
    torch.accelerator.synchronize()
    with stream:
        loss = Square.apply(x).sum()
    torch.accelerator.current_stream().wait_stream(stream)
    loss.backward()
    assert Square.streams == stream
    assert x.grad.tolist() == [2, 2, 2]


@on_device
def test_gradcheck_passes():
    x = torch.linspace(-1, 1, 3, dtype=torch.float64, device="emulated", requires_grad=True)
    assert torch.autograd.gradcheck(Square.apply, (x,))
    assert torch.autograd.gradgradcheck(Square.apply, (x,))


@on_device
def test_a_gradient_on_another_device_is_refused():
    class Elsewhere(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad.cpu() * 2

    x = torch.ones(3, device="emulated", requires_grad=True)
    with pytest.raises(RuntimeError, match="invalid gradient at index 0 - expected device emulated:0 but got cpu"):
        Elsewhere.apply(x).sum().backward()
