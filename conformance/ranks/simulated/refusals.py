"""Refuse what a backend refuses on the calling rank, whatever the other ranks do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from conformance.ranks.simulated.collectives import REDUCED, STEPS, Arguments, Name, missing_from

#: The arguments that are a list with a tensor for each rank, and those that are one tensor of the same shape.
LISTS = {
    "allgather_": [("output_tensors", "input_tensors")],
    "gather_": [("output_tensors", "input_tensors")],
    "reduce_scatter_": [("input_tensors", "output_tensors")],
    "scatter_": [("input_tensors", "output_tensors")],
}
#: The argument that is one tensor for all ranks, and the one that is a rank's part of it.
FLAT = {
    "_allgather_base_": ("output_tensor", "input_tensor"),
    "_reduce_scatter_base_": ("input_tensor", "output_tensor"),
}


def expect_usable(operator: str, arguments: Arguments, operation: Any, rank: int, size: int) -> None:
    """Check the arguments of an operator.

    Raises:
        ValueError: the tensors cannot be sent.
        RuntimeError: sparse tensors are reduced by anything but their sum, or the root is not in the group.
    """
    if (root := arguments.get("root_rank", 0)) not in range(size):
        raise RuntimeError(f"root {root} is not in the group, which has {size} ranks")
    if operation is not None:
        _expect_reduction(operation, arguments)
    whole = arguments["tensors"] if "tag" in arguments else ()
    if operator == "alltoall_base_":
        whole = arguments["input"], arguments["output"]
        own = [_rows(arguments, end, rank, size) for end in ("input", "output")]
        if own[0] != own[1]:
            raise ValueError(f"rank {rank} sends itself {own[0]} elements, and has room for {own[1]}")
    if whole and not all(tensor.is_contiguous() for tensor in whole):
        raise ValueError("Tensors must be contiguous")
    if size > 1 and (operator in REDUCED or operator == "broadcast_"):
        for tensor in arguments["tensors"]:
            _expect_memory(tensor)
    for several, one in LISTS.get(operator, ()):
        if arguments[several]:  # of a gather or a scatter, only the root has them
            _expect_one_for_each(arguments[several][0], arguments[one][0], rank, size)
    if operator in FLAT:
        large, small = FLAT[operator]
        if arguments[large].numel() != arguments[small].numel() * size:
            counts = arguments[large].numel(), arguments[small].numel()
            raise ValueError(f"{counts[0]} elements are not {size} times {counts[1]}")


def _expect_one_for_each(tensors: Sequence[Tensor], alone: Tensor, rank: int, size: int) -> None:
    if len(tensors) != size:
        raise ValueError(f"{len(tensors)} tensors for {size} ranks")
    if tensors[rank].shape != alone.shape:
        raise ValueError(f"rank {rank} brings {tuple(alone.shape)} where {tuple(tensors[rank].shape)} is expected")


def _expect_reduction(operation: Any, arguments: Arguments) -> None:
    if operation not in STEPS:
        raise ValueError("simulated ranks reduce by SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR and BXOR")
    if operation != Name.SUM and any(tensor.is_sparse for tensor in arguments.get("tensors", ())):
        raise RuntimeError("simulated ranks reduce sparse tensors by SUM, as Gloo does")


def _expect_memory(tensor: Tensor) -> None:
    """Refuse a tensor whose elements share memory: it has no elements in memory order."""
    if missing := missing_from(tensor):
        there = tensor.numel() - missing
        raise ValueError(f"{tensor.numel()} elements have memory for {there}: they share it")


def _rows(arguments: Arguments, end: str, rank: int, size: int) -> int:
    """Return how many elements this rank sends to itself, or receives from itself."""
    tensor, rows = arguments[end], arguments[f"{end}_split_sizes"]
    length = tensor.shape[0] if tensor.dim() else 1
    if len(rows) not in {0, size} or (sum(rows) != length if rows else length % size):
        raise ValueError(f"dimension 0 of {length} is not {rows or 'as much for each'} of {size} ranks")
    return int(tensor.numel() // max(length, 1) * (rows[rank] if rows else length // size))
