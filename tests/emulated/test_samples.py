"""Samples reach the device as the caller made them."""

from __future__ import annotations

import pytest
import torch

from tests.emulated.processes import on_device

BASE = torch.arange(24, dtype=torch.float64)
SHAPES = {
    "transposed": BASE.reshape(4, 6).t(),
    "offset": BASE[5:],
    "expanded": BASE[:3].expand(4, 3),
    "strided": BASE[::3],
    "negated": torch.view_as_complex(BASE.reshape(12, 2)).conj().imag,
}


@pytest.mark.parametrize("name", SHAPES)
@on_device
def test_a_tensor_keeps_its_layout_on_the_device(name):
    from conformance.kit.samples import fresh

    tensor = SHAPES[name]
    (there,) = fresh((tensor,), "emulated:1")
    assert there.device == torch.device("emulated:1")
    assert (there.stride(), there.storage_offset()) == (tensor.stride(), tensor.storage_offset())
    assert there.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()
    assert there._base is not None, "a view stays a view"
    assert torch.equal(there.cpu(), tensor)


@on_device
def test_a_module_among_the_arguments_moves_and_the_callers_stays():
    from conformance.kit.samples import fresh

    linear = torch.nn.Linear(2, 2)
    (there,) = fresh((linear,), "emulated")
    assert there.weight.device.type == "emulated"
    assert linear.weight.device.type == "cpu"


@on_device
def test_generators_of_the_device_are_seeded_and_put_back():
    from conformance.kit import seeds

    def drawn():
        return torch.rand(3, device="emulated").cpu()

    with seeds.seeded(3):
        one = drawn()
    state = torch.emulated.get_rng_state()
    with seeds.seeded(3):
        assert torch.equal(drawn(), one)
    assert torch.equal(torch.emulated.get_rng_state(), state)


@on_device
def test_a_change_of_device_or_stream_is_seen():
    from conformance.kit.process import isolation

    before = isolation.snapshot()
    torch.accelerator.set_device_index(1)
    assert isolation.changed_facts(before, isolation.snapshot()) == ["current device or stream"]
    torch.accelerator.set_device_index(0)
    assert isolation.changed_facts(before, isolation.snapshot()) == []
    with torch.Stream("emulated"):
        assert isolation.changed_facts(before, isolation.snapshot()) == ["current device or stream"]


@on_device
def test_the_state_of_a_device_generator_may_stand_on_ctx():
    from types import SimpleNamespace

    from conformance.kit.observation.ctx_tensors import tensors_on

    assert not list(tensors_on(SimpleNamespace(state=torch.emulated.get_rng_state())))


def test_a_backend_that_fails_is_no_reason_to_let_a_dtype_pass(monkeypatch):
    """Only the words by which backends refuse a dtype make a test not applicable."""
    import torch.distributed as dist

    from conformance.kit.deviations import NotApplicable
    from conformance.kit.gathers.expected import carries
    from conformance.kit.world import World

    def failing(message):
        def gather(*_):
            raise RuntimeError(message)

        monkeypatch.setattr(dist, "all_gather", gather)

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    failing("Input tensor data type is not supported for NCCL process group: Short")
    with pytest.raises(NotApplicable):
        carries(World(), torch.int16)
    failing("NCCL error: Duplicate GPU detected")
    with pytest.raises(RuntimeError, match="Duplicate GPU"):
        carries(World(), torch.int16)


@on_device
def test_the_report_of_a_check_names_the_device_of_its_samples():
    from conformance import check

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(3, dtype=torch.float64, device="emulated", requires_grad=True)
    report = check(Twice, (x,), only="Function.backward.count")
    assert report.environment["device"] == "emulated:0"
