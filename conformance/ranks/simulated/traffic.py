"""Transport collectives and messages between simulated ranks.

Values are read when the first rank waits, and arrive at each rank when that rank waits: as late as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from conformance.core.disagreement import public_name
from conformance.ranks.collectives import described
from conformance.ranks.simulated.collectives import (
    COPIED,
    OPERATORS,
    Arguments,
    Transfers,
    memory,
    operation_of,
    own_part,
    value_of,
)

_Result = TypeVar("_Result")
#: What arrives on a rank: each tensor with its values.
Arrivals = list[tuple[Tensor, Tensor]]
#: The arguments that name a rank, as a message shows them.
ENDS = {"root_rank": "root", "src": "from rank", "dst": "to rank"}


class Mismatch(Exception):
    """Arguments of ranks in a collective, or of a send and its receive, do not match."""


class Call:
    """What one rank called; its text is only made where somebody asks for it."""

    __slots__ = ("arguments", "key", "operation", "operator", "records")

    def __init__(self, operator: str, arguments: Arguments) -> None:
        self.operator, self.arguments, self.operation = operator, arguments, operation_of(arguments)
        #: All ranks of a collective agree on these.
        self.key = operator, self.operation, arguments.get("root_rank"), arguments.get("root_tensor")
        #: Whether the rank recorded gradients when it called.
        self.records = torch.is_grad_enabled()

    def __str__(self) -> str:
        own, how = self.arguments, f" by {self.operation.name}" if self.operation is not None else ""
        how += "".join(f", {word} {own[name]}" for name, word in ENDS.items() if name in own)
        return f"{public_name(self.operator)}({', '.join(_unseen(described, own.values()))}){how}"


@dataclass
class Collective:
    """One collective of a group: what each rank called, and the ranks that have received their values."""

    size: int
    calls: dict[int, Call] = field(default_factory=dict)
    is_full: bool = False
    #: A copy of a rank's own part, as a backend's buffer holds it.
    buffers: dict[int, Tensor] = field(default_factory=dict)
    transfers: Transfers = field(default_factory=list)
    #: After values were read: what is still to be delivered, by rank. Nothing else is kept alive.
    arrivals: dict[int, Arrivals] | None = None

    def enter(self, rank: int, call: Call) -> None:
        """Add the call of a rank.

        Raises:
            Mismatch: it does not match those of other ranks.
        """
        self.calls[rank] = call
        if call.key != next(iter(self.calls.values())).key:
            raise Mismatch
        own = own_part(call.operator, call.arguments, rank, self.size) if call.records else None
        if own is not None and own.requires_grad:
            self.buffers[rank] = _recorded(True, own.clone)
        if len(self.calls) == self.size:
            self.is_full = True
            arguments = [self.calls[each].arguments for each in range(self.size)]
            try:
                made = OPERATORS[call.operator]
                self.transfers = made(arguments) if call.operator in COPIED else _unseen(made, arguments)
            except (ValueError, RuntimeError, IndexError) as error:
                raise Mismatch from error
            sources = {key: _kind(parts, call.operation) for key, parts in self._sources().items()}
            if any(sources[id(parts)] != (to.numel(), to.dtype) for own in self.transfers for to, parts in own):
                raise Mismatch

    def _sources(self) -> dict[int, tuple[Tensor, ...]]:
        """Return what is read, by id: many ranks receive the same."""
        return {id(parts): parts for own in self.transfers for _, parts in own}

    def deliver(self, rank: int, call: Call) -> None:
        """Deliver values to a rank that made this call; the first delivery reads the values of all ranks."""
        if self.arrivals is None:
            self.arrivals = _unseen(self._read, call.operation)
        own = self.arrivals.pop(rank, [])
        if call.operator not in COPIED:
            _unseen(_fill, own)
            return
        if rank in self.buffers:
            ((to, value),) = own
            own = [(to, _unseen(self.buffers.pop(rank).copy_, value))]
        # PyTorch copies this one's result in the thread that waits, others' in one that goes on as the call did.
        is_late = call.operator == "_reduce_scatter_base_"
        _recorded(torch.is_grad_enabled() if is_late else call.records, _fill, own)

    def _read(self, operation: Any) -> dict[int, Arrivals]:
        values = {key: value_of(parts, operation) for key, parts in self._sources().items()}
        found = {rank: [(to, values[id(parts)]) for to, parts in own] for rank, own in enumerate(self.transfers)}
        for call in self.calls.values():
            call.arguments = {}
        self.calls, self.transfers = {}, []
        return found


@dataclass(eq=False)
class Message:
    """A message from one rank to another. Nothing buffers it: it is sent once the other rank receives."""

    tensor: Tensor
    source: int
    tag: int
    is_read: bool = False
    is_taken: bool = False

    def read(self) -> Tensor:
        """Return the value, as it was at the first call."""
        if not self.is_read:
            self.tensor, self.is_read = _unseen(self.tensor.clone), True
        return self.tensor


@dataclass(eq=False)
class Receive:
    """A receive; ``source`` is None for a message from any rank."""

    tensor: Tensor | None
    source: int | None
    tag: int
    message: Message | None = None

    @property
    def is_paired(self) -> bool:
        """Tell whether its message exists, or has arrived."""
        return self.message is not None or self.tensor is None

    def is_for(self, message: Message) -> bool:
        """Tell whether it accepts a message."""
        return self.message is None and self.tag == message.tag and self.source in {None, message.source}

    def take(self, message: Message) -> None:
        """Pair it with its message.

        Raises:
            Mismatch: of another size or dtype.
        """
        self.message, self.source, message.is_taken = message, message.source, True
        assert self.tensor is not None
        if _kind([self.tensor], None) != _kind([message.tensor], None):
            raise Mismatch

    def deliver(self) -> None:
        """Deliver the message."""
        if self.message is not None and self.tensor is not None:
            value = self.message.read()
            _unseen(lambda to: memory(to).copy_(value.view(-1)), self.tensor)
            self.message = self.tensor = None  # nothing is kept alive


@dataclass
class Mailbox:
    """Messages in transit to one rank of a group, and its pending receives."""

    messages: list[Message] = field(default_factory=list)
    receives: list[Receive] = field(default_factory=list)

    def send(self, message: Message) -> None:
        """Give a message to the first receive that accepts it, or keep it."""
        for receive in self.receives:
            if receive.is_for(message):
                self.receives.remove(receive)
                receive.take(message)
                return
        self.messages.append(message)

    def receive(self, receive: Receive) -> None:
        """Take the first message that fits, or wait for one."""
        for message in self.messages:
            if receive.is_for(message):
                self.messages.remove(message)
                receive.take(message)
                return
        self.receives.append(receive)


def _kind(parts: Sequence[Tensor], operation: Any) -> tuple[int, torch.dtype] | None:
    """Return how many elements parts have that are reduced or joined, and their dtype; None if they do not fit."""
    first = parts[0]
    if len(parts) == 1:
        return first.numel(), first.dtype
    sizes, dtypes = [part.numel() for part in parts], {part.dtype for part in parts}
    if len(dtypes) > 1 or (operation is not None and len(set(sizes)) > 1):
        return None
    return first.numel() if operation is not None else sum(sizes), first.dtype


def _fill(arrived: Arrivals) -> None:
    values = [value if value.shape == to.shape else value.reshape(to.shape) for to, value in arrived]
    if torch.is_grad_enabled() or not values:
        for (to, _), value in zip(arrived, values, strict=True):
            to.copy_(value)
    else:  # the same in half the time, but autograd would record one operation for all
        torch._foreach_copy_([to for to, _ in arrived], values)


def _unseen(action: Callable[..., _Result], *args: Any) -> _Result:
    """Hide from modes, from autograd and from version counters what a backend writes into memory."""
    with (
        torch._C._AutoDispatchBelowADInplaceOrView(),
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
    ):
        return action(*args)


def _recorded(records: bool, action: Callable[..., _Result], *args: Any) -> _Result:
    """Hide it from modes alone: version counters see it, and autograd, if gradients are recorded."""
    below: Any = torch._C
    with torch.set_grad_enabled(records), below.DisableTorchFunction(), below._DisableTorchDispatch():
        return action(*args)
