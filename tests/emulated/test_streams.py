"""Streams are late on purpose: what nobody has waited for has not happened."""

from __future__ import annotations

import pytest
import torch

from tests.emulated.processes import on_device


def ones():
    return torch.ones(4, device="emulated")


@on_device
def test_a_copy_that_does_not_block_is_there_after_a_synchronisation():
    y = ones() * 2
    host = y.to("cpu", non_blocking=True)
    assert host.isnan().all()
    torch.accelerator.synchronize()
    assert torch.equal(host, torch.full((4,), 2.0))


@on_device
def test_a_copy_that_blocks_is_there():
    assert torch.equal((ones() * 2).to("cpu"), torch.full((4,), 2.0))
    assert torch.equal(torch.empty(4).copy_(ones(), non_blocking=True), torch.ones(4))  # pageable memory: it blocks


@on_device
def test_a_copy_from_pinned_memory_reads_it_late():
    host = torch.ones(4).pin_memory()
    x = host.to("emulated", non_blocking=True)
    host.zero_()
    assert torch.equal(x.cpu(), torch.zeros(4))
    x = torch.ones(4)
    y = x.to("emulated", non_blocking=True)
    x.zero_()
    assert torch.equal(y.cpu(), torch.ones(4))


@on_device
def test_another_stream_sees_nothing_until_it_waits():
    other = torch.Stream("emulated")
    x = ones() * 3
    with other:
        early = x.sum().item()
        other.wait_stream(torch.accelerator.current_stream())  # itself: no use
        other.wait_stream(torch.Stream(stream_id=0, device_index=0, device_type=x.device.type and other.device_type))
        late = x.sum().item()
    assert early != early
    assert late == 12


@on_device
def test_an_event_orders_two_streams():
    other = torch.Stream("emulated")
    with other:
        x = ones() * 5
        event = other.record_event()
    assert not torch.accelerator.current_stream() == other
    torch.accelerator.current_stream().wait_event(event)
    assert torch.equal((x + 1).cpu(), torch.full((4,), 6.0))


@on_device
def test_asking_an_event_makes_the_work_go_on():
    event = torch.Event("emulated")
    assert event.query()
    x = ones() * 2
    event.record()
    host = torch.empty(4, pin_memory=True)
    host.copy_(x, non_blocking=True)
    assert not event.query()
    assert event.query()
    assert host.isnan().all()  # that came after the event
    event.record()
    event.synchronize()
    assert torch.equal(host, torch.full((4,), 2.0))


@on_device
def test_the_time_between_two_events_is_not_negative():
    start, end = torch.Event("emulated", enable_timing=True), torch.Event("emulated", enable_timing=True)
    start.record()
    ones()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0


@on_device
def test_streams_of_two_devices_are_apart():
    x, y = torch.ones(2, device="emulated:0"), torch.ones(2, device="emulated:1")
    hosts = [(x * 2).to("cpu", non_blocking=True), (y * 3).to("cpu", non_blocking=True)]
    torch.accelerator.synchronize(1)
    assert hosts[0].isnan().all()
    assert torch.equal(hosts[1], torch.full((2,), 3.0))
    assert torch.accelerator.current_stream(0) != torch.accelerator.current_stream(1)


@on_device
def test_writes_of_two_streams_to_parts_of_one_tensor_both_arrive():
    x = ones()
    torch.accelerator.synchronize()
    other = torch.Stream("emulated")
    x[:2].add_(1)
    with other:
        x[2:].add_(2)
    torch.accelerator.synchronize()
    assert x.tolist() == [2, 2, 3, 3]


@on_device
def test_what_runs_late_is_not_seen_by_the_dispatch_mode_of_whoever_waits():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        names = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **kwargs or {})

    x = ones() * 2
    with Log() as log:
        torch.accelerator.synchronize()
        x + 1
    assert log.names == ["aten.add.Tensor"]


@on_device
def test_a_stream_of_a_wrong_device_is_refused():
    with pytest.raises((RuntimeError, IndexError)):
        torch.Stream("emulated:5")
