"""Transport collectives and messages between simulated ranks.

Values are read when the first rank waits, and arrive at each rank when that rank waits: as late as possible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from conformance.ranks.simulated.collectives import COPIED, OPERATORS, Arguments, Transfers, memory, own_part, value_of


class Mismatch(Exception):
    """Arguments of ranks in a collective, or of a send and its receive, do not match."""


@dataclass
class Collective:
    """One collective of a group: each rank's arguments, and the ranks that have received their values."""

    operator: str
    size: int
    operation: Any = None
    calls: dict[int, Arguments] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    is_full: bool = False
    #: Whether each rank recorded gradients when it called, and a copy of its own part, as a backend's buffer holds it.
    modes: dict[int, bool] = field(default_factory=dict)
    buffers: dict[int, Tensor] = field(default_factory=dict)
    transfers: Transfers = field(default_factory=list)
    #: After values were read: what is still to be delivered, by rank. Nothing else is kept alive.
    arrivals: dict[int, list[tuple[Tensor, Tensor]]] | None = None

    def enter(self, rank: int, arguments: Arguments, operator: str, operation: Any, text: str) -> None:
        """Add the arguments of a rank.

        Raises:
            Mismatch: they do not match those of other ranks.
        """
        self.texts[rank] = text
        root, own = ((call.get("root_rank"), call.get("root_tensor")) for call in (self._first(arguments), arguments))
        if operator != self.operator or operation != self.operation or root != own:
            raise Mismatch
        self.calls[rank], self.modes[rank] = arguments, torch.is_grad_enabled()
        own_input = own_part(operator, arguments, rank, self.size)
        if own_input is not None and self.modes[rank] and own_input.requires_grad:
            with _unseen(records=True):
                self.buffers[rank] = own_input.clone()
        if len(self.calls) == self.size:
            self.is_full = True
            try:
                self.transfers = OPERATORS[operator]([self.calls[rank] for rank in range(self.size)])
            except (ValueError, RuntimeError, IndexError) as error:
                raise Mismatch from error
            if not all(_fits(to, parts) for own in self.transfers for to, parts in own):
                raise Mismatch

    def _first(self, arguments: Arguments) -> Arguments:
        return next(iter(self.calls.values()), arguments)

    def deliver(self, rank: int) -> None:
        """Deliver values to a rank; the first delivery reads the values of all ranks."""
        with _unseen():
            if self.arrivals is None:
                self.arrivals = self._read()
            own = self.arrivals.pop(rank, [])
            if self.operator not in COPIED:
                _fill(own)
                return
            if rank in self.buffers:
                ((to, value),) = own
                own = [(to, self.buffers.pop(rank).copy_(value))]
        # PyTorch copies this one's result in the thread that waits, others' in one that goes on as the call did.
        is_late = self.operator == "_reduce_scatter_base_"
        with _unseen(records=torch.is_grad_enabled() if is_late else self.modes[rank]):
            _fill(own)

    def _read(self) -> dict[int, list[tuple[Tensor, Tensor]]]:
        values: dict[tuple[int, ...], Tensor] = {}
        for own in self.transfers:
            for _, parts in own:
                key = tuple(map(id, parts))
                if key not in values:
                    values[key] = value_of(parts, self.operation)
        found = {
            rank: [(to, values[tuple(map(id, parts))]) for to, parts in own] for rank, own in enumerate(self.transfers)
        }
        self.calls, self.transfers = {}, []
        return found


@dataclass(eq=False)
class Message:
    """A message from one rank to another."""

    tensor: Tensor
    source: int
    tag: int
    is_read: bool = False

    def read(self) -> Tensor:
        """Return the value, as it was at the first call."""
        if not self.is_read:
            with _unseen():
                self.tensor, self.is_read = self.tensor.clone(), True
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
        self.message, self.source = message, message.source
        assert self.tensor is not None
        if not _fits(memory(self.tensor), (message.tensor,)):
            raise Mismatch

    def deliver(self) -> None:
        """Deliver the message."""
        if self.message is not None and self.tensor is not None:
            value = self.message.read()
            with _unseen():
                memory(self.tensor).copy_(value.view(-1))
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


def _fits(to: Tensor, parts: Sequence[Tensor]) -> bool:
    return all(part.numel() == to.numel() and part.dtype == to.dtype for part in parts)


def _fill(arrived: Iterable[tuple[Tensor, Tensor]]) -> None:
    for to, value in arrived:
        to.copy_(value if value.shape == to.shape else value.reshape(to.shape))


@contextlib.contextmanager
def _unseen(records: bool | None = None) -> Iterator[None]:
    """Hide from modes what a backend writes into memory, and from autograd and version counters too.

    Args:
        records: if given, autograd and version counters see it, and whether gradients are recorded.
    """
    below: Any = torch._C
    own = below._AutoDispatchBelowADInplaceOrView() if records is None else torch.set_grad_enabled(records)
    with own, below.DisableTorchFunction(), below._DisableTorchDispatch():
        yield
