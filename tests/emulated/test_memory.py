"""Device memory is not for the host, what nobody has written is NaN, and pinned memory is known."""

from __future__ import annotations

import ctypes
import os
import signal

import pytest
import torch

from conformance.emulated import build, load
from tests.emulated.processes import ending, on_device


def read_by_the_host(library, device):
    load(library)
    x = torch.ones(4, device=device)
    if device != "cpu":
        torch.accelerator.synchronize()
    value = ctypes.cast(x.data_ptr(), ctypes.POINTER(ctypes.c_float))[0]
    assert value == 1


def written_by_the_host(library):
    load(library)
    x = torch.ones(4, device="emulated")
    ctypes.memset(x.data_ptr(), 0, 4)


def test_the_host_dies_of_touching_device_memory():
    assert ending(read_by_the_host, build(), "emulated")[0] == -signal.SIGSEGV
    assert ending(written_by_the_host, build())[0] == -signal.SIGSEGV
    assert ending(read_by_the_host, build(), "cpu")[0] == 0


@on_device
def test_numpy_refuses_device_memory():
    with pytest.raises(TypeError, match="can't convert emulated:0 device type tensor to numpy"):
        torch.ones(1, device="emulated").numpy()


@on_device
def test_memory_that_nobody_has_written_is_not_zero():
    assert torch.empty(1000, device="emulated").isnan().all()
    assert (torch.empty(1000, dtype=torch.int64, device="emulated") == -1).all()


@on_device
def test_pinned_memory_is_known():
    x = torch.arange(3.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert torch.equal(pinned, x)
    assert torch.empty(3, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(3, device="emulated", pin_memory=True)


@on_device
def test_a_forked_process_cannot_go_on_with_the_device():
    x = torch.ones(2, device="emulated")
    child = os.fork()
    if child == 0:
        try:
            x + 1
        except RuntimeError as error:
            os._exit(7 if "forked" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@on_device
def test_a_process_that_has_only_loaded_the_device_may_fork():
    child = os.fork()
    if child == 0:
        os._exit(0 if (torch.ones(2, device="emulated") + 1).sum().item() == 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
