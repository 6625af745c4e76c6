"""Define each collective's transfers: where values arrive on every rank, and from which ranks' tensors.

There is one function for each operator of ``c10d``. It takes each rank's arguments, in the order of the group, by the
names of the operator's schema, and returns each rank's transfers. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from conformance.kit.tensors import tensor_leaves

Arguments = dict[str, Any]
#: The names of reductions, by number.
Name: Any = ReduceOp.RedOpType


#: A tensor to fill, and its sources: one tensor, or several to reduce or to join. What is the same tuple is read once.
Transfer = tuple[Tensor, tuple[Tensor, ...]]
Transfers = list[list[Transfer]]


def memory(tensor: Tensor) -> Tensor:
    """Return the elements in memory order: Gloo and NCCL ignore strides in what they reduce, broadcast or scatter."""
    if tensor.is_contiguous() or tensor.is_sparse:
        return tensor if tensor.is_sparse else tensor.view(-1)
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def missing_from(tensor: Tensor) -> int:
    """Return how many elements of a tensor have no memory of their own, for some share it."""
    if tensor.is_contiguous() or tensor.is_sparse:
        return 0
    there = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    return int(max(0, tensor.numel() - there))


def sent_from(tensor: Tensor) -> Tensor:
    """Return what is read from there on. Where elements share memory, what is read past its end is undefined."""
    if not (missing := missing_from(tensor)):
        return memory(tensor)
    beyond = tensor.new_full((missing,), torch.nan if tensor.is_floating_point() or tensor.is_complex() else 1)
    return torch.cat([tensor.as_strided((tensor.numel() - missing,), (1,), tensor.storage_offset()), beyond])


def _without_gaps(tensor: Tensor) -> Tensor:
    """Return a tensor with the strides that a copy of it has."""
    is_dense = torch.ops.aten.is_non_overlapping_and_dense.default(tensor)
    return tensor if is_dense else tensor.clone()


def _reduced(tensors: Sequence[Sequence[Tensor]], to: Sequence[Sequence[Tensor]]) -> Transfers:
    """Each tensor is the sum, or another reduction, of those of all ranks at its place. One rank moves nothing."""
    if len(tensors) == 1 and not any(tensor.is_sparse for tensor in tensors[0]):
        return [[]]
    sums = [tuple(map(memory, each)) for each in zip(*tensors, strict=True)]
    return [[(memory(tensor), sums[at]) for at, tensor in enumerate(own)] for own in to]


def all_reduce(calls: list[Arguments]) -> Transfers:
    """``allreduce_``."""
    tensors = [call["tensors"] for call in calls]
    return _reduced(tensors, tensors)


def reduce(calls: list[Arguments]) -> Transfers:
    """``reduce_``: only the root receives a result."""
    tensors, root = [call["tensors"] for call in calls], calls[0]["root_rank"]
    return _reduced(tensors, [own if rank == root else [] for rank, own in enumerate(tensors)])


def broadcast(calls: list[Arguments]) -> Transfers:
    """``broadcast_``."""
    root = calls[0]["root_rank"]
    if len(calls) == 1:
        return [[]]
    sent = [(memory(tensor),) for tensor in calls[root]["tensors"]]
    return [
        [] if rank == root else [(memory(to), part) for to, part in zip(call["tensors"], sent, strict=True)]
        for rank, call in enumerate(calls)
    ]


def all_gather(calls: list[Arguments]) -> Transfers:
    """``allgather_``."""
    sent = [[(call["input_tensors"][0],) for call in calls]]
    return [_paired(call["output_tensors"], sent) for call in calls]


def all_gather_coalesced(calls: list[Arguments]) -> Transfers:
    """``allgather_coalesced_``: for each rank, a list of its tensors."""
    sent = [[(part,) for part in call["input_list"]] for call in calls]
    return [_paired(call["output_lists"], sent) for call in calls]


def all_gather_single(calls: list[Arguments]) -> Transfers:
    """``_allgather_base_``."""
    return _gathered_flat([([call["output_tensor"]], [call["input_tensor"]]) for call in calls])


def all_gather_singles(calls: list[Arguments]) -> Transfers:
    """``allgather_into_tensor_coalesced_``."""
    return _gathered_flat([(call["outputs"], call["inputs"]) for call in calls])


def _gathered_flat(pairs: list[tuple[list[Tensor], list[Tensor]]]) -> Transfers:
    sent = [[(one.reshape(-1),) for one in each] for each in zip(*(inputs for _, inputs in pairs), strict=True)]
    return [_paired([_rows_of(to, len(pairs)) for to in outputs], sent) for outputs, _ in pairs]


def _paired(to: Sequence[Sequence[Tensor]], sent: list[list[tuple[Tensor]]]) -> list[Transfer]:
    return [pair for own, each in zip(to, sent, strict=True) for pair in zip(own, each, strict=True)]


def reduce_scatter(calls: list[Arguments]) -> Transfers:
    """``reduce_scatter_``: as Gloo, a rank copies its own part to where it will arrive, and adds to it in memory.

    What it adds is a copy, which leaves out the gaps of a part that is cut out of wider rows.
    """
    found: Transfers = []
    for rank, call in enumerate(calls):
        to, brought = call["output_tensors"][0], [each["input_tensors"][0][rank] for each in calls]
        order = sorted(range(to.dim()), key=lambda dim: -to.stride(dim))
        own = brought[rank].permute(order)
        parts = (own if part is brought[rank] else memory(_without_gaps(part)).view(own.shape) for part in brought)
        found.append([(to if to.is_contiguous() else memory(to).view(own.shape), tuple(parts))])
    return found


def reduce_scatter_single(calls: list[Arguments]) -> Transfers:
    """``_reduce_scatter_base_``."""
    return _scattered_sums([([call["output_tensor"]], [call["input_tensor"]]) for call in calls])


def reduce_scatter_singles(calls: list[Arguments]) -> Transfers:
    """``reduce_scatter_tensor_coalesced_``."""
    return _scattered_sums([(call["outputs"], call["inputs"]) for call in calls])


def _scattered_sums(pairs: list[tuple[list[Tensor], list[Tensor]]]) -> Transfers:
    """As Gloo, add in memory what ranks copied as it lay there; each rank sees the sum through its own strides."""
    dense = [[one if _is_dense(one) else one.contiguous() for one in brought] for _, brought in pairs]
    found: Transfers = []
    for rank, (outputs, _) in enumerate(pairs):
        found.append([])
        for to, own, *each in zip(outputs, dense[rank], *dense, strict=True):
            seen = (one.as_strided(own.shape, own.stride(), one.storage_offset()) for one in each)
            found[-1].append((to, tuple(_rows_of(one, len(pairs))[rank] for one in seen)))
    return found


def _is_dense(tensor: Tensor) -> bool:
    """Tell whether a copy would lie in memory as the tensor does: without gaps, and no two elements in one place."""
    return torch.empty_like(tensor, device="meta").stride() == tensor.stride()


def _rows_of(tensor: Tensor, size: int) -> Sequence[Tensor]:
    """Return each rank's part of the rows, or of the memory if there are not as many rows for each."""
    if tensor.dim() and tensor.numel() and tensor.shape[0] % size == 0:
        return tensor.chunk(size)
    return _parts(tensor, size)


def gather(calls: list[Arguments]) -> Transfers:
    """``gather_``."""
    found: Transfers = [[] for _ in calls]
    root = calls[0]["root_rank"]
    found[root] = _paired(calls[root]["output_tensors"], [[(call["input_tensors"][0],) for call in calls]])
    return found


def scatter(calls: list[Arguments]) -> Transfers:
    """``scatter_``."""
    sent = calls[calls[0]["root_rank"]]["input_tensors"][0]
    into = [memory(call["output_tensors"][0]) for call in calls]
    return [[(to, (sent_from(part),))] for to, part in zip(into, sent, strict=True)]


def all_to_all(calls: list[Arguments]) -> Transfers:
    """``alltoall_``."""
    return [
        [(to, (other["input_tensors"][rank],)) for to, other in zip(call["output_tensors"], calls, strict=True)]
        for rank, call in enumerate(calls)
    ]


def all_to_all_single(calls: list[Arguments]) -> Transfers:
    """``alltoall_base_``, with parts of different sizes if given: what arrives is one after the other in memory."""
    size = len(calls)
    sent = [_parts(call["input"], size, call["input_split_sizes"]) for call in calls]
    found: Transfers = []
    for rank, call in enumerate(calls):
        to, rows, parts = call["output"], call["output_split_sizes"], tuple(each[rank] for each in sent)
        width = to.numel() // max(to.shape[0] if rows else size, 1)
        if [part.numel() for part in parts] != [width * number for number in rows or [1] * size]:
            raise ValueError(f"rank {rank} has room for other numbers of elements than are sent to it")
        found.append([(memory(to), parts)])
    return found


def barrier(calls: list[Arguments]) -> Transfers:
    """``barrier``: nothing moves."""
    return [[] for _ in calls]


def _parts(tensor: Tensor, size: int, rows: Sequence[int] = ()) -> Sequence[Tensor]:
    """Split a tensor's memory into one part for each rank: equal parts, or given numbers of rows."""
    flat = memory(tensor)
    if not rows:
        return flat.view(size, -1).unbind() if flat.numel() else [flat] * size
    width = flat.numel() // max(tensor.shape[0], 1)
    parts: Sequence[Tensor] = flat.split([number * width for number in rows])
    return parts


OPERATORS: dict[str, Callable[[list[Arguments]], Transfers]] = {
    "allreduce_": all_reduce,
    "allreduce_coalesced_": all_reduce,
    "reduce_": reduce,
    "broadcast_": broadcast,
    "allgather_": all_gather,
    "allgather_coalesced_": all_gather_coalesced,
    "allgather_into_tensor_coalesced_": all_gather_singles,
    "_allgather_base_": all_gather_single,
    "reduce_scatter_": reduce_scatter,
    "_reduce_scatter_base_": reduce_scatter_single,
    "reduce_scatter_tensor_coalesced_": reduce_scatter_singles,
    "gather_": gather,
    "scatter_": scatter,
    "alltoall_": all_to_all,
    "alltoall_base_": all_to_all_single,
    "barrier": barrier,
}

#: Operators whose results backends copy from an own buffer, by an operation that autograd records.
COPIED = ("allgather_", "_allgather_base_", "gather_", "reduce_scatter_", "_reduce_scatter_base_")
#: Operators that use memory order, whatever the strides.
REDUCED = ("allreduce_", "allreduce_coalesced_", "reduce_")

STEPS: dict[Any, Callable[[Tensor, Tensor], Tensor]] = {
    Name.SUM: Tensor.add_,
    Name.AVG: Tensor.add_,
    Name.PRODUCT: Tensor.mul_,
    Name.MIN: lambda total, part: torch.minimum(total, part, out=total),
    Name.MAX: lambda total, part: torch.maximum(total, part, out=total),
    Name.BAND: Tensor.bitwise_and_,
    Name.BOR: Tensor.bitwise_or_,
    Name.BXOR: Tensor.bitwise_xor_,
}


def own_part(operator: str, arguments: Arguments, rank: int, size: int) -> Tensor | None:
    """Return the part of a rank's own to which the backend adds those of others; None if there is no sum."""
    if operator == "reduce_scatter_":
        part: Tensor = arguments["input_tensors"][0][rank]
        return part
    return _rows_of(arguments["input_tensor"], size)[rank] if operator == "_reduce_scatter_base_" else None


def value_of(parts: Sequence[Tensor], operation: Any) -> Tensor:
    """Copy one tensor, or reduce or join several in the order of the ranks."""
    if operation is None and len(parts) > 1:
        return torch.cat(tuple(parts))
    total = parts[0].clone()
    for part in parts[1:]:
        STEPS[operation](total, part)
    return total.div_(len(parts)) if operation == Name.AVG else total


def operation_of(arguments: Arguments) -> Any:
    """Return the kind of a reduction; None for another operator."""
    return Name(arguments["reduce_op"].op()) if "reduce_op" in arguments else None


def filled_by(arguments: Arguments) -> list[Tensor]:
    """Return the tensors that an operator fills on a rank, as its future has them."""
    names = ("output_tensors", "output_tensor", "output", "tensors")
    return next((tensor_leaves(arguments[name]) for name in names if name in arguments), [])
