"""Random numbers on the emulated device: generators of its own, which are seeded with the others."""

from __future__ import annotations

import pytest
import torch

from tests.emulated.processes import on_device

DRAWS = {
    "rand": lambda **how: torch.rand(8, device="emulated", **how),
    "normal": lambda **how: torch.empty(8, device="emulated").normal_(**how),
    "randint": lambda **how: torch.randint(1000, (8,), device="emulated", **how),
    "randperm": lambda **how: torch.randperm(100, device="emulated", **how),
    "bernoulli": lambda **how: torch.full((64,), 0.5, device="emulated").bernoulli(**how),
    "multinomial": lambda **how: torch.ones(64, device="emulated").multinomial(8, **how),
}


@pytest.mark.parametrize("draw", DRAWS)
@on_device
def test_a_generator_gives_the_same_numbers_again(draw):
    generator = torch.Generator("emulated").manual_seed(3)
    first, second = DRAWS[draw](generator=generator), DRAWS[draw](generator=generator)
    assert not torch.equal(first, second)
    assert torch.equal(DRAWS[draw](generator=generator.manual_seed(3)), first)


@pytest.mark.parametrize("draw", DRAWS)
@on_device
def test_a_generator_of_the_cpu_is_refused(draw):
    with pytest.raises(RuntimeError, match="device type for generator"):
        DRAWS[draw](generator=torch.Generator())


@pytest.mark.parametrize("draw", DRAWS)
@on_device
def test_drawing_leaves_the_generator_of_the_cpu_alone(draw):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = DRAWS[draw]()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    assert torch.equal(DRAWS[draw](), first)


@on_device
def test_dropout_draws_from_the_device():
    before = torch.get_rng_state()
    state = torch.emulated.get_rng_state()
    first = torch.dropout(torch.ones(64, device="emulated"), 0.5, True)
    assert torch.equal(torch.get_rng_state(), before)
    torch.emulated.set_rng_state(state)
    assert torch.equal(torch.dropout(torch.ones(64, device="emulated"), 0.5, True), first)


@on_device
def test_each_device_has_a_generator():
    torch.manual_seed(1)
    zero = torch.rand(3, device="emulated:0")
    assert torch.equal(torch.rand(3, device="emulated:1").cpu(), zero.cpu())
    with torch.random.fork_rng(devices=[0, 1], device_type="emulated"):
        inside = torch.rand(3, device="emulated:1")
    assert torch.equal(torch.rand(3, device="emulated:1"), inside)
