"""Operators on the emulated device: they agree with the CPU, keep to one device, and views are views."""

from __future__ import annotations

import copy
import io
import re

import pytest
import torch
import torch.nn.functional as F

from tests.emulated.processes import on_device

X = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4)
OPERATORS = {
    "add": lambda x: x + x,
    "scalar": lambda x: 2 - x,
    "number": lambda x: x * torch.tensor(3.0),
    "matmul": lambda x: x @ x.t(),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "broadcast": lambda x: x + x[:1],
    "softmax": lambda x: x.softmax(-1),
    "sum": lambda x: x.sum(0),
    "sort": lambda x: x.sort(descending=True),
    "topk": lambda x: x.topk(2),
    "unique": lambda x: x.round().unique(return_counts=True),
    "nonzero": lambda x: (x > 0).nonzero(),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "masked": lambda x: x[x > 0],
    "index": lambda x: x[torch.tensor([2, 0])],
    "index_put": lambda x: x.clone().index_put_((torch.tensor([0]),), x[1]),
    "gather": lambda x: x.gather(1, (x > 0).long()),
    "scatter_add": lambda x: x.clone().scatter_add_(0, (x > 0).long(), x),
    "cat": lambda x: torch.cat([x, x.flip(0)]),
    "split": lambda x: x.split(2),
    "cumsum": lambda x: x.cumsum(1),
    "dtype": lambda x: x.to(torch.float32),
    "integers": lambda x: x.to(torch.int16) // 2,
    "bytes": lambda x: x.view(torch.uint8) ^ 1,
    "complex": lambda x: (torch.complex(x, x).conj() * 1j).imag,
    "conjugate": lambda x: torch.complex(x, x).conj().clone(),
    "real": lambda x: torch.view_as_real(torch.complex(x, x)),
    "fft": lambda x: torch.fft.fft(x).abs(),
    "inverse": lambda x: torch.linalg.inv(x @ x.t() + torch.eye(3, dtype=x.dtype, device=x.device)),
    "foreach": lambda x: torch._foreach_mul([x, x.t()], 2.0),
    "in_place_view": lambda x: x.clone().t()[1:].mul_(3),
    "out": lambda x: torch.add(x, 1, out=torch.empty(0, dtype=x.dtype, device=x.device)),
    "norm": lambda x: F.layer_norm(x, (4,)),
    "convolution": lambda x: F.conv1d(x[None], x[None, :, :2]),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "stack": lambda x: torch.stack([x[0], x[1]]),
    "arange": lambda x: torch.arange(5, device=x.device) * 2,
    "from_list": lambda x: torch.tensor([[1.0, 2.0]], device=x.device),
    "indices": lambda x: torch.tril_indices(3, 3, device=x.device),
    "empty": lambda x: x[:0].sum(1),
    "item": lambda x: x.sum().item(),
    "equal": lambda x: torch.equal(x, x.clone()),
    "list": lambda x: x.tolist(),
    "text": lambda x: repr(x).replace("device='emulated:0',", "").split(),
}


@pytest.mark.parametrize("name", OPERATORS)
@on_device
def test_an_operator_gives_what_it_gives_on_the_cpu(name):
    expected, actual = OPERATORS[name](X), OPERATORS[name](X.to("emulated"))
    if not isinstance(expected, (tuple, list)):
        expected, actual = [expected], [actual]
    for one, other in zip(expected, actual, strict=True):
        if isinstance(one, torch.Tensor):
            assert other.device == torch.device("emulated", 0)
            assert other.stride() == one.stride()
            assert other.dtype == one.dtype
            torch.testing.assert_close(other.cpu(), one, rtol=1e-12, atol=1e-12)  # some are composed of others there
        else:
            assert other == one


VIEWS = {
    "select": lambda x: x[1],
    "slice": lambda x: x[:, 1:3],
    "transpose": lambda x: x.t(),
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(4, 3),
    "unfold": lambda x: x.unfold(1, 2, 2),
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
    "bytes": lambda x: x.view(torch.float32),
    "chunk": lambda x: x.chunk(2, 1)[1],
    "as_complex": lambda x: torch.view_as_complex(x.view(3, 2, 2)),
    "as_real": lambda x: torch.view_as_real(torch.view_as_complex(x.view(3, 2, 2))),
    "real": lambda x: torch.view_as_complex(x.view(3, 2, 2)).real,
    "detach": lambda x: x.detach(),
}


@pytest.mark.parametrize("name", VIEWS)
@on_device
def test_what_is_written_to_a_view_is_in_its_base(name):
    expected, actual = X.clone(), X.to("emulated")
    VIEWS[name](expected).fill_(7)
    view = VIEWS[name](actual)
    view.fill_(7)
    assert view.untyped_storage().data_ptr() == actual.untyped_storage().data_ptr()
    assert torch.equal(actual.cpu(), expected)


@on_device
def test_no_view_of_dense_tensors_goes_by_the_cpu():
    missing = []
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}".rstrip(".")
        view = any(result.alias_info and not result.alias_info.is_write for result in schema.returns)
        if view and name.startswith("aten::") and not re.search("nested|sparse|values|indices", name):
            try:
                native = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "PrivateUse1")
            except RuntimeError:  # a function of TorchScript, not an operator
                continue
            if not native:
                missing.append(name)
    registered = {"as_strided", "view", "_reshape_alias", "unfold", "view_as_real", "view_as_complex"}
    assert set(missing) <= {f"aten::{name}" for name in registered}, "these would be copies, not views"
    for name in registered:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "PrivateUse1")


MIXED = {
    "add": lambda x, other: x + other,
    "in_place": lambda x, other: x.add_(other),
    "matmul": lambda x, other: x @ other.t(),
    "cat": lambda x, other: torch.cat([x, other]),
    "where": lambda x, other: torch.where(x > 0, x, other),
    "out": lambda x, other: torch.add(x, 1, out=other),
    "linear": lambda x, other: F.linear(x, other),
    "mask": lambda x, other: x.masked_fill(other > 0, 0.0),
    "loss": lambda x, other: F.mse_loss(x, other),
}


@pytest.mark.parametrize("place", ["cpu", "emulated:1"])
@pytest.mark.parametrize("name", MIXED)
@on_device
def test_tensors_of_two_devices_do_not_mix(name, place):
    with pytest.raises(RuntimeError, match=f"same device, but found at least two devices.*{place}"):
        MIXED[name](X.to("emulated:0"), X.to(place))


@on_device
def test_a_number_and_indices_may_lie_on_the_cpu():
    x = X.to("emulated")
    assert torch.equal((x * torch.tensor(2.0)).cpu(), X * 2)
    assert torch.equal(x[torch.tensor([2, 1])].cpu(), X[torch.tensor([2, 1])])
    with pytest.raises(RuntimeError, match="same device"):
        torch.tensor(2.0).add_(x.sum())


@on_device
def test_copies_between_devices():
    x = X.to("emulated:0")
    y = (x * 2).to("emulated:1")
    assert y.device == torch.device("emulated:1")
    assert torch.equal(y.cpu(), X * 2)
    y[:, ::2].copy_(x[:, 1::2])
    expected = X * 2
    expected[:, ::2].copy_(X[:, 1::2])
    assert torch.equal(y.cpu(), expected)
    assert torch.equal(torch.empty(3, 4, dtype=torch.complex64).copy_(x), X.to(torch.complex64))


@on_device
def test_the_current_device_is_where_tensors_are_made():
    assert torch.accelerator.current_accelerator() == torch.device("emulated")
    assert torch.accelerator.device_count() == 2
    torch.accelerator.set_device_index(1)
    assert torch.empty(1, device="emulated").device.index == 1
    with torch.accelerator.device_index(0):
        assert torch.empty(1, device="emulated").device.index == 0
        assert (torch.ones(1, device="emulated:1") + 1).device.index == 1
    assert torch.accelerator.current_device_index() == 1
    with pytest.raises(RuntimeError, match="there is no device emulated:2, only 2"):
        torch.empty(1, device="emulated:2")


@on_device
def test_storages_are_replaced_and_resized():
    x = X.to("emulated")
    y = torch.empty(0, dtype=x.dtype, device="emulated").set_(x.untyped_storage(), 4, (2, 4), (4, 1))
    y.zero_()
    assert torch.equal(x.cpu(), torch.cat([X[:1], torch.zeros(2, 4, dtype=X.dtype)]))
    y.resize_(5, 4)[2:] = 1
    assert torch.equal(y.cpu(), torch.cat([torch.zeros(2, 4), torch.ones(3, 4)]).to(X.dtype))
    y.set_()
    assert y.shape == (0,)
    y.data = x
    assert y.data_ptr() == x.data_ptr()
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0


@on_device
def test_copied_and_saved_tensors_come_back():
    x = X.to("emulated:1")
    assert torch.equal(copy.deepcopy(x).cpu(), X)
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded.device == x.device
    assert torch.equal(loaded.cpu(), X)


@on_device
def test_memory_is_counted_and_given_back():
    before = torch.accelerator.memory_allocated(1)
    x = torch.empty(1000, dtype=torch.uint8, device="emulated:1")
    assert torch.accelerator.memory_allocated(1) == before + 1000
    del x
    assert torch.accelerator.memory_allocated(1) == before
    assert torch.accelerator.max_memory_allocated(1) >= before + 1000


@on_device
def test_autocast_computes_in_the_lower_precision():
    x = torch.ones(2, 2, device="emulated")
    with torch.autocast("emulated", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
    assert (x @ x).dtype == torch.float32
