"""Each planted mistake is right on the CPU and wrong on the emulated device."""

from __future__ import annotations

import signal

import pytest
import torch

from conformance.emulated import build, load
from tests.emulated import mistakes
from tests.emulated.processes import ending, on_device

X = torch.linspace(1, 2, 6, dtype=torch.float64).reshape(2, 3)


def values_of(function, device):
    """What a Function and its backward give for X on a device."""
    x = (X - 1).to(device).add_(1).requires_grad_()  # computed on the device, so that it may be late
    y = function.apply(x)
    y.sum().backward()
    return y.detach().cpu(), x.grad.cpu()


def is_right(function, device):
    y, grad = values_of(function, device)
    return torch.allclose(y, X * X) and torch.allclose(grad, 2 * X)


MISTAKES = [each for each in vars(mistakes).values() if isinstance(each, type) and each.__mro__[1] is mistakes.Square]


@pytest.mark.parametrize("function", MISTAKES, ids=lambda function: function.__name__)
def test_a_mistake_does_not_show_on_the_cpu(function):
    assert is_right(function, "cpu")


@on_device
def test_no_mistake_is_right_everywhere():
    for device in ("cpu", "emulated", "emulated:1"):
        assert is_right(mistakes.Square, device)
        if device != "cpu":
            with torch.Stream(device):
                assert is_right(mistakes.Square, device)


@pytest.mark.parametrize(
    ("name", "device", "message"),
    [
        ("HostTensorInForward", "emulated", "same device, but found at least two devices, emulated:0 and cpu"),
        ("DeviceForgotten", "emulated", "same device, but found at least two devices, emulated:0 and cpu"),
        ("GradientOnTheHost", "emulated", "invalid gradient at index 0 - expected device emulated:0 but got cpu"),
        ("FirstDevice", "emulated:1", "same device, but found at least two devices, emulated:1 and emulated:0"),
        ("HostGenerator", "emulated", "Expected a 'emulated' device type for generator but found 'cpu'"),
    ],
)
@on_device
def test_a_mistake_about_places_raises(name, device, message):
    with pytest.raises(RuntimeError, match=message):
        values_of(getattr(mistakes, name), device)


@on_device
def test_the_first_device_is_right_for_itself():
    assert is_right(mistakes.FirstDevice, "emulated:0")


def read_by_the_host(library):
    load(library)
    values_of(mistakes.HostRead, "emulated")


def test_a_host_read_of_device_memory_ends_the_process():
    assert ending(read_by_the_host, build())[0] == -signal.SIGSEGV


@pytest.mark.parametrize("name", ["ReadTooEarly", "StreamWithoutWaiting", "EventBeforeTheWork"])
@on_device
def test_what_is_read_too_early_is_wrong(name):
    y, _ = values_of(getattr(mistakes, name), "emulated")
    assert y.isnan().all()


@on_device
def test_a_buffer_that_is_read_too_early_has_what_it_had_before():
    y, _ = values_of(mistakes.PinnedBuffer, "emulated")
    assert not torch.allclose(y, X * X)


@on_device
def test_the_device_is_no_gpu():
    with pytest.raises((AssertionError, RuntimeError), match="CUDA"):
        values_of(mistakes.CudaByName, "emulated")


@on_device
def test_the_default_stream_is_not_always_the_callers():
    assert is_right(mistakes.DefaultStream, "emulated")
    with torch.Stream("emulated"):
        y, _ = values_of(mistakes.DefaultStream, "emulated")
    assert y.isnan().all()


@on_device
def test_memory_taken_for_zero_is_wrong():
    y, grad = values_of(mistakes.MemoryTakenForZero, "emulated")
    assert torch.allclose(y, X * X)
    assert grad.isnan().all()
