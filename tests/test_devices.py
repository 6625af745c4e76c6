"""Which accelerator each rank takes, and what is said where there are too few for a world."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.ranks.cluster.leader import Cluster
from conformance.ranks.devices import device_of, identity_of_device, missing
from conformance.ranks.hardware import Hardware

GPUS = Hardware({"cuda": ["a", "b"]}, backends={"gloo": ["cpu", "cuda"], "nccl": ["cuda"]}, built=["gloo", "nccl"])


def missing_there(size: int, places: list[str], **given: Any) -> str:
    asked = {"backend": "nccl", "device": "cuda", "hardware": GPUS, "environment": {}} | given
    return missing(size, True, places=places, **asked)


def test_what_is_missing_for_gpus() -> None:
    """A world that NCCL cannot form here is not run, and the reason says what would be needed."""
    assert missing_there(2, ["a", "a"]) == "needs 2 GPUs, found 1"
    assert missing_there(1, ["a"]) == ""
    assert missing_there(2, ["a", "b", "a", "b"]) == ""
    assert missing_there(4, ["a", "b", "a", "b"]) == "needs 4 GPUs, found 2"
    assert missing_there(2, ["a", "a"], backend="gloo") == "", "ranks on Gloo share a GPU"
    assert missing_there(1, ["a"], hardware=replace(GPUS, built=["gloo"])) == "this PyTorch was built without nccl"
    assert "--device cuda" in missing_there(2, ["", ""], device="cpu")
    assert missing(1, False, backend="nccl", device="cpu", hardware=GPUS, places=[""]) == ""


def test_one_rank_takes_the_gpu_that_it_was_given() -> None:
    """On a machine with two GPUs, ``cuda:1`` is there for one rank, and ``cuda:2`` is not."""
    assert missing_there(1, [identity_of_device("cuda:1", 0, ["a", "b"])], device="cuda:1") == ""
    assert (
        missing_there(1, [identity_of_device("cuda:2", 0, ["a", "b"])], device="cuda:2") == "needs cuda:2, found 2 GPUs"
    )
    assert missing_there(2, ["b", "b"], device="cuda:1") == "NCCL needs a GPU for each of 2 ranks: give --device cuda"


def test_ranks_share_a_gpu_where_their_nccl_knows_how() -> None:
    """NCCL has NCCL_MULTI_RANK_GPU_ENABLE since 2.30; an earlier one does not look at it."""
    shared = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
    assert missing_there(2, ["a", "a"], environment=shared, hardware=replace(GPUS, nccl=(2, 30, 7))) == ""
    assert "needs 2 GPUs" in missing_there(2, ["a", "a"], environment=shared, hardware=replace(GPUS, nccl=(2, 28, 9)))


def test_gpus_of_a_cluster_are_told_apart() -> None:
    """Where each process of a machine sees one GPU, and that another one, every rank has a GPU of its own."""
    cluster = object.__new__(Cluster)
    fact = {"machine": "m", "accelerators": {"cuda": ["a"]}}
    cluster.facts = [{**fact, "local_rank": 0}, {**fact, "local_rank": 1, "accelerators": {"cuda": ["b"]}}]
    assert cluster.places("cuda") == ["m a", "m b"]
    assert missing_there(2, cluster.places("cuda")) == ""
    cluster.facts[1] |= {"accelerators": {"cuda": ["a"]}}
    assert missing_there(2, cluster.places("cuda")) == "needs 2 GPUs, found 1"


def test_each_rank_has_the_gpu_of_its_place_on_its_machine() -> None:
    """Local rank r takes GPU r; where ranks share, they take turns."""
    assert [device_of("cuda", rank, 2) for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_of("cuda:1", 0, 2) == "cuda:1"
