"""Random numbers: a test draws the same ones in the caller's process and on a rank, from every generator."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from conformance import check
from conformance.kit import seeds
from conformance.kit.attempt import call_body

DRAWN: list[tuple[float, float, float]] = []


def drawing() -> tuple[float, float, float]:
    """One number of each generator."""
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def draw() -> None:
    """A test body that draws."""
    DRAWN.append(drawing())


def test_a_body_starts_from_the_same_state_whatever_went_before() -> None:
    with seeds.generators_restored():
        for number in (1, 2):
            seeds.seed(number)
            call_body(__name__, "draw", (), {})
    assert DRAWN[0] == DRAWN[1]


def test_every_generator_is_put_back() -> None:
    with seeds.generators_restored():
        seeds.seed(5)
        before = drawing()
        seeds.seed(5)
        with seeds.seeded(6):
            drawing()
        assert drawing() == before


@pytest.fixture
def recording(tmp_path: Path) -> type:
    """A Function that writes down what its forward draws."""
    file = str(tmp_path / "drawn")

    class Recording(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            import random

            import numpy as np

            with open(file, "a", encoding="utf-8") as out:
                print(random.random(), np.random.rand(), torch.rand(()).item(), file=out)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Recording


def test_a_rank_draws_what_the_callers_process_draws(recording: type, tmp_path: Path) -> None:
    drawn = []
    for ranks in (1, 2):  # with more than one, tests of one rank run on a rank process too
        x = torch.ones(2, dtype=torch.float64, requires_grad=True)
        check(recording, (x,), ranks=ranks, only="test_gradient_is_the_derivative")
        drawn.append((tmp_path / "drawn").read_text().splitlines())
        (tmp_path / "drawn").unlink()
    assert drawn[0][-1] == drawn[1][-1]
    assert set(drawn[0]) >= set(drawn[1])
