"""What the suite does where an older PyTorch lacks something, tried on the newest by taking it away."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from conformance.kit import process_groups
from conformance.kit.observation.ctx_tensors import tensors_on
from conformance.kit.world import World


class GoneNode:
    """A ctx whose node is gone: until 2.12 PyTorch raises where anomaly mode's notes are asked for."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.kept = tensor

    @property
    def metadata(self) -> dict[str, object]:
        raise RuntimeError("You attempted to access the anomaly metadata of a custom autograd function")


def test_a_ctx_whose_node_is_gone_is_still_looked_at() -> None:
    assert [way for way, _ in tensors_on(GoneNode(torch.ones(1)))] == ["ctx.kept"]


def test_groups_are_made_where_pytorch_sorts_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def new_group(ranks: list[int]) -> object:
        made.append(ranks)
        return SimpleNamespace(ranks=ranks)

    monkeypatch.setattr(dist, "new_group", new_group)
    assert not process_groups.orders_groups()
    process_groups.group_of(World(rank=0, size=3), (0, 2))
    assert made == [[0, 2]]


def test_ranks_can_be_in_another_order_here() -> None:
    assert process_groups.orders_groups()
