"""Share between tests of gathers: the ranks' inputs, the expected results, and the mistakes worth naming."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit import expect
from conformance.kit.deviations import Deviation, NotApplicable, Unfit, need
from conformance.kit.gathers.mistakes import Table, added_up, entry_mistakes, gradient_mistakes
from conformance.kit.numerics.differences import central, shifted
from conformance.kit.results import misshaped
from conformance.kit.specs import random
from conformance.kit.subject import Subject
from conformance.kit.world import World

#: Ways to lay out in memory what a matrix says, or a part of it.
INPUT_LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda base: base.t(),
    "sliced columns": lambda base: base[:, ::2],
    "sliced rows": lambda base: base[1::2],
    "offset": lambda base: base.reshape(-1)[3:],
    "expanded rows": lambda base: base[0].expand(3, base.shape[1]),
    "expanded from one element": lambda base: base[0, 0].expand(2, 3),
    "permuted": lambda base: base.reshape(2, 2, 3, 2).permute(2, 0, 3, 1),
    "channels last": lambda base: base.reshape(2, 3, 2, 2).to(memory_format=torch.channels_last),
    "diagonal": lambda base: base.diagonal(),
}
#: How far an element is moved for a difference.
_STEP = 1e-4
#: How backends refuse a dtype: NCCL and those like it, Gloo, and PyTorch for all of them.
DTYPE_REFUSED = (
    "data type is not supported",
    "Invalid scalar type",
    "Unsupported data type",
    "Unconvertible NCCL type",
)


def carries(world: World, dtype: torch.dtype) -> None:
    """End the test as not applicable if the backend itself cannot gather or sum a dtype."""
    if not dist.is_initialized():
        return
    one = torch.ones(1, dtype=dtype, device=world.device)
    try:
        dist.all_gather([torch.empty_like(one) for _ in range(world.size)], one)
        dist.all_reduce(one)
    except (RuntimeError, TypeError) as error:
        if not any(words in str(error) for words in DTYPE_REFUSED):
            raise  # a backend that fails is no reason to let anything pass
        name = str(dtype).removeprefix("torch.")
        raise NotApplicable(f"the backend {world.backend} carries no {name}: {error}") from error


def samples(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield a matrix, and a vector on one rank: in larger worlds the tests of a gather bring every shape."""
    yield "matrix", (random((2, 3), 100 + rank),)
    if size == 1:
        yield "vector", (random((4,), 200 + rank),)


def rank_inputs(world: World, shape: tuple[int, ...], dtype: torch.dtype, *key: object) -> list[torch.Tensor]:
    """Return the input of every rank; no two ranks have the same."""
    return [world.tensor(rank, shape, dtype, "x", *key) for rank in range(world.size)]


def cotangents(world: World, shape: tuple[int, ...], dtype: torch.dtype, *key: object) -> Table:
    """Return each rank's gradient for each entry: small whole numbers, whose sum is exact in any dtype."""
    size = range(world.size)
    return [[_whole(world, s, shape, dtype, "cotangent", r, *key) for r in size] for s in size]


def _whole(world: World, rank: int, shape: tuple[int, ...], dtype: torch.dtype, *key: object) -> torch.Tensor:
    real = world.tensor(rank, shape, torch.int64, *key) % 17 - 8
    if not dtype.is_complex:
        return real.to(dtype)
    return torch.complex(real.double(), (world.tensor(rank, shape, torch.int64, "i", *key) % 17 - 8).double()).to(dtype)


def entries(subject: Subject, world: World, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Gather, and assert that the result has one tensor for each rank.

    Raises:
        Unfit: it is no tuple, or has fewer or more.
    """
    outputs = subject(x)
    if wrong := misshaped(outputs, world.size):
        raise Unfit(wrong)
    for place, output in enumerate(outputs):
        expect.that(isinstance(output, torch.Tensor), f"entry {place} on rank {world.rank} is a tensor", output)
    return tuple(outputs)


def expect_entries(
    world: World, actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], what: str = ""
) -> None:
    """Assert that entry s is what rank s gave, bit for bit, for every s."""
    for place, (entry, tensor) in enumerate(zip(actual, expected, strict=True)):
        name = f"entry {place} on rank {world.rank} of {world.size}{what}, which is rank {place}'s tensor"
        same_bits(entry, tensor, name, entry_mistakes(expected, place))


def same_bits(actual: Any, expected: torch.Tensor, what: str, mistakes: dict[str, torch.Tensor]) -> None:
    """Assert that two tensors are the same to the last bit: the sign of zero and the bits of a NaN too."""
    expect.equal(actual, expected, what, mistakes)
    expect.that(
        torch.equal(_bits(actual), _bits(expected)), f"{what}: the bits", _shown_bits(actual), _shown_bits(expected)
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8).cpu()


def _shown_bits(tensor: torch.Tensor) -> str:
    return bytes(_bits(tensor)[:32].tolist()).hex(" ", tensor.element_size())


def gradient(outputs: Any, x: torch.Tensor, grads: Any) -> torch.Tensor | None:
    """Compute the gradient of ``x``, given a gradient for each output; None if no output depends on ``x``.

    What has no graph has no gradient, and counts as nothing: what came of it tells more than autograd's refusal.
    """
    pairs = zip(outputs, grads, strict=True) if isinstance(outputs, tuple | list) else [(outputs, grads)]
    connected = [(output, grad) for output, grad in pairs if output.requires_grad]
    if not connected:
        return None
    roots, given = zip(*connected, strict=True)
    found: torch.Tensor | None = torch.autograd.grad(roots, x, given, allow_unused=True)[0]
    return found


def expect_gradient(
    world: World,
    actual: torch.Tensor | None,
    table: Table,
    what: str = "",
    earlier: Table | None = None,
    **tolerance: float,
) -> None:
    """Assert that this rank's gradient is the sum of what every rank holds for its entry."""
    rank, expected = world.rank, added_up(table, world.rank)
    name = f"the gradient of x on rank {rank} of {world.size}{what}, the sum of all ranks' gradients of entry {rank}"
    if actual is None:
        raise Deviation(name, None, expect.shown(expected), "the graph is cut: x gets no gradient")
    tolerance = tolerance or exact_to(expected.dtype)
    stale = {} if earlier is None else {"a stale buffer: the gradient of an earlier call": added_up(earlier, rank)}
    mistakes = stale | gradient_mistakes(table, rank)
    expect.close(actual, expected, f"{name},", rtol=tolerance["rtol"], atol=tolerance["atol"], alternatives=mistakes)


def expect_nothing_more_kept(world: World, actual: torch.Tensor | None) -> None:
    """Assert that a gradient keeps no more memory alive than it fills."""
    where = f"the gradient on rank {world.rank} of {world.size}"
    if actual is None:
        return
    needed, kept = actual.numel() * actual.element_size(), actual.untyped_storage().nbytes()
    all_ranks = "a view of all ranks' gradients: clone it" if kept == needed * world.size else ""
    what = f"the memory that {where} keeps alive"
    expect.that(kept <= needed, what, f"{kept} bytes", f"{needed} bytes at most, its own size", all_ranks)


def exact_to(dtype: torch.dtype) -> dict[str, float]:
    """The tolerance for sums of a few small whole numbers: as much as a division by N and back needs."""
    eps = torch.finfo(dtype).eps
    return {"rtol": 8 * eps, "atol": 64 * eps}


def central_differences(world: World, loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Table:
    """The derivative of every rank's loss with respect to every element of every rank's ``x``.

    One element on one rank is moved at a time, and the losses of all ranks are watched. ``table[s][r]`` is the
    derivative of rank s's loss with respect to rank r's ``x``.
    """
    losses = [float(loss(moved).detach()) for moved in _moved(world, x)]
    shape = (world.size, world.size, x.numel(), 2)
    seen = torch.tensor(world.exchange(losses), dtype=torch.float64).reshape(shape)
    slopes = central(seen[..., 0], seen[..., 1], _STEP)
    return [[slopes[s, r].reshape(x.shape).to(x.device) for r in range(world.size)] for s in range(world.size)]


def _moved(world: World, x: torch.Tensor) -> Iterator[torch.Tensor]:
    for rank in range(world.size):
        for element in range(x.numel()):
            for change in (_STEP, -_STEP):
                yield shifted(x, element, change if rank == world.rank else 0.0)


def need_jvp(subject: Subject) -> None:
    """End the test as not applicable if the class has no forward mode."""
    need(subject.defines("jvp"), "no class defines jvp: forward mode is not supported")


def need_transforms(subject: Subject) -> None:
    """End the test as not applicable if torch.func cannot be used."""
    need(subject.separate, "torch.func accepts only the separate form, with setup_context; this class has another form")


def need_vmap(subject: Subject) -> None:
    """End the test as not applicable if the class does not support torch.vmap."""
    need_transforms(subject)
    offered = subject.defines("vmap") or subject.generates_vmap
    need(offered, "the class has neither vmap nor generate_vmap_rule: torch.vmap is not supported")
