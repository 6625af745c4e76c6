"""Simulate a world of ranks in this process: its process groups, and the outcomes of a body on all ranks."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from conformance.core.outcomes import BAD_SUBJECT, BROKEN, Outcome, RankOutcome, judgements_from
from conformance.core.prose import clipped
from conformance.core.worlds import SIMULATED
from conformance.kit.attempt import Attempt
from conformance.kit.deviations import Unfit
from conformance.kit.world import JUDGED, World
from conformance.ranks.call_log import KEPT, LINE
from conformance.ranks.simulated import kernels, shared, state
from conformance.ranks.simulated.collectives import filled_by
from conformance.ranks.simulated.exchanges import Exchanges
from conformance.ranks.simulated.refusals import expect_usable
from conformance.ranks.simulated.scheduler import Scheduler, Stuck
from conformance.ranks.simulated.traffic import Call, Collective, Mailbox, Message, Mismatch, Receive
from conformance.ranks.worker import attempted


class Work(dist.Work):
    """The work of one collective on a rank: it ends when that rank waits for it."""

    def __init__(
        self, simulation: Simulation, what: object, is_ready: Callable[[], bool], arrive: Callable[[], object]
    ):
        super().__init__()
        self.simulation, self.what, self.is_ready, self.arrive = simulation, what, is_ready, arrive
        self.is_waited_for = False
        self.receive: Receive | None = None
        self.pause = 1e-6
        self.filled: Callable[[], object] = list
        simulation.begun.append(self)

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the other ranks; only then have values arrived."""
        self.simulation.scheduler.wait(self.what, self.is_ready)
        self.is_waited_for = True
        self.arrive()
        self.what, self.is_ready, self.arrive, self.filled = "", _is_done, _is_done, list  # what it held is let go
        return True

    def synchronize(self) -> None:
        """The same as to wait."""
        self.wait()

    block_current_stream = synchronize

    def is_completed(self) -> bool:
        """Tell whether it has ended; the call lets other ranks go on, the longer the oftener it was asked."""
        self.pause *= 2
        self.simulation.scheduler.wait(self.what, lambda: True, seconds=self.pause)
        return self.is_ready() and self.wait()

    def is_success(self) -> bool:
        """Tell whether it succeeded."""
        return self.is_completed()

    def _source_rank(self) -> int:
        """Return the rank of the group that sent the message."""
        if self.receive is None or self.receive.source is None:
            return super()._source_rank()
        return self.receive.source

    def get_future(self) -> Any:
        """Return a completed future of the tensors that it fills: only a rank's own wait may switch to another rank."""
        filled = self.filled()
        self.wait()
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(filled)
        return future


def _is_done() -> bool:
    return True


def _alive(held: Sequence[weakref.ref[torch.Tensor]]) -> list[torch.Tensor]:
    return [tensor for tensor in (each() for each in held) if tensor is not None]


class Simulation:
    """N simulated ranks. Close it, or use it as a context manager.

    Args:
        size: number of ranks.
        seed: seed of the order in which ranks run; None for the fixed order.

    >>> with Simulation(3) as simulation:
    ...     [found.message for found in simulation.run(lambda world: f"rank {dist.get_rank()} of {world.size}")]
    ['rank 0 of 3', 'rank 1 of 3', 'rank 2 of 3']
    """

    def __init__(self, size: int, seed: int | None = None) -> None:
        self.size = size
        #: All work of a run, kept alive: PyTorch does not keep these objects, and they do the waiting.
        self.begun: list[Work] = []
        self.backends: list[Any] = []
        self.names: list[dict[Any, Any]] = [{} for _ in range(size)]
        self.collectives: dict[tuple[str, int], Collective] = {}
        self.entered: dict[tuple[str, int], int] = {}
        self.mail: dict[tuple[str, int], Mailbox] = {}
        self.logs: list[list[str]] = [[] for _ in range(size)]
        #: What ends the names of a rank's groups, and the calls of the collective that was entered last.
        self.marks = [""] * size
        self.calls: dict[int, Call] = {}
        self.at_odds: set[int] = set()  # the ranks whose calls do not match
        self.exchanges = among = Exchanges(size)
        self.at_once = self.is_group_shared = False
        self.scheduler = among.scheduler = Scheduler(size, seed, self._arrive_all, among.leave_alone)
        own: dict[str, Any] = {"exchange": among.exchange, "made_once": among.made_once, "sleep": self.sleep}
        self.worlds = [World(rank, size, SIMULATED, **own) for rank in range(size)]
        self._open = contextlib.ExitStack()
        self._open.enter_context(kernels.installed(self))
        store = dist.HashStore()

        def join(rank: int) -> None:
            kernels.here.world = self
            self.names[rank] = distributed_c10d._pg_names
            dist.init_process_group(kernels.GLOO, store=store, rank=rank, world_size=size)
            _, self.marks[rank] = state.parts_of_name(dist.group.WORLD)

        self.scheduler.run(join)

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the ranks' threads and put PyTorch's own kernels back."""
        self.scheduler.run(None)
        self._open.close()

    def run(self, body: Callable[[World], object], at_once: bool = False) -> list[RankOutcome]:
        """Run a body on every rank, and return how it ended on each.

        Args:
            body: what each rank does, given its world.
            at_once: whether every collective ends before the call that begins it returns.
        """
        for kept in (self.begun, self.collectives, self.entered, self.mail):
            kept.clear()
        for log in self.logs:
            log.clear()
        self.exchanges.clear()
        self.at_once, self.at_odds, self.is_group_shared = at_once, set(), False
        ended: list[Attempt | None] = [None] * self.size

        def job(rank: int) -> None:
            ended[rank] = attempted(lambda: self._with_proof(body, rank))

        self.scheduler.run(job)
        return self._outcomes([found for found in ended if found is not None])

    def _with_proof(self, body: Callable[[World], object], rank: int) -> object:
        try:
            return body(self.worlds[rank])
        except Stuck as error:  # whose traceback nobody reads: the proof says where each rank waits
            raise Unfit(str(error)) from None

    def expect(self, body: Callable[[World], object]) -> None:
        """Run a body on every rank; an exception of a rank is raised here."""
        problems: list[BaseException] = []

        def raising(world: World) -> None:
            try:
                body(world)
            except BaseException as error:
                problems.append(error)
                raise

        self.run(raising)
        if problems:
            raise problems[0]

    @property
    def is_left_behind(self) -> bool:
        """Tell whether some work of the last body was never waited for."""
        return not all(work.is_waited_for for work in self.begun)

    def note(self, line: Callable[[], str]) -> None:
        """Record a collective that the present rank enters."""
        log = self.logs[self.scheduler.current]
        if len(log) < KEPT:
            log.append(line()[:LINE])

    def carry_out(self, operator: str, arguments: dict[str, Any], group: dist.ProcessGroup) -> Work:
        """Begin an operator for the rank whose turn it is."""
        rank, size, call = group.rank(), group.size(), Call(operator, arguments)
        expect_usable(operator, arguments, call.operation, rank, size)
        self.scheduler.wait(call, lambda: True)  # another rank may be first, if the order is random
        name, mark = state.parts_of_name(group)
        self.is_group_shared |= mark not in {"", self.marks[self.scheduler.current]}
        try:
            return self._message(call, name, rank) if "tag" in arguments else self._collective(call, name, rank, size)
        except Mismatch:
            members = dist.get_process_group_ranks(group)
            brought = {members[each]: line for each, line in sorted(self.calls.items())}
            each = (f"rank {rank} called {line}{self.scheduler.place_of(rank)}" for rank, line in brought.items())
            self.at_odds = set(brought)
            self.scheduler.stop(f"what the ranks called does not fit together: {'; '.join(each)}")
            self.scheduler.wait(call, lambda: False)
            raise

    def _collective(self, call: Call, name: str, rank: int, size: int) -> Work:
        number = self.entered[name, rank] = self.entered.get((name, rank), -1) + 1
        if (name, number) not in self.collectives:
            self.collectives[name, number] = Collective(size)
        collective = self.collectives[name, number]
        self.calls = collective.calls
        collective.enter(rank, call)
        if collective.is_full:
            del self.collectives[name, number]  # only their work keeps them
        work = Work(self, call, lambda: collective.is_full, lambda: collective.deliver(rank, call))
        filled = filled_by(call.arguments)
        # Work keeps no tensor alive; the call does, until what it fills has arrived.
        work.filled = partial(_alive, [weakref.ref(tensor) for tensor in filled])
        if self.at_once:
            work.filled = filled.copy
            self.scheduler.wait(call, work.is_ready)
            work.arrive()
        return work

    def _message(self, call: Call, name: str, rank: int) -> Work:
        (tensor,), tag = call.arguments["tensors"], call.arguments["tag"]
        self.calls, text = {rank: call}, str(call)  # as text, for work keeps no tensor alive
        if call.operator == "send":
            message = Message(tensor, rank, tag)
            self.mail.setdefault((name, call.arguments["dst"]), Mailbox()).send(message)
            work = Work(self, text, lambda: message.is_taken, message.read)
        else:
            receive = Receive(tensor, call.arguments.get("src"), tag)
            self.mail.setdefault((name, rank), Mailbox()).receive(receive)
            work = Work(self, text, lambda: receive.is_paired, receive.deliver)
            work.receive = receive
        call.arguments = {}  # nor does the call, which is kept until the next one
        return work

    def sleep(self, seconds: float) -> None:
        """Let other ranks go on; messages in transit arrive before a sleeping rank wakes up."""
        self.scheduler.wait("a pause of the suite", lambda: True, seconds)

    def _arrive_all(self) -> None:
        for work in list(self.begun):
            if not work.is_waited_for and work.is_ready():
                work.arrive()

    def _outcomes(self, ended: list[Attempt]) -> list[RankOutcome]:
        """Return each rank's outcome, from how its body ended and where it was when no rank could go on."""
        proof, stuck = self.scheduler.proof, self.scheduler.stuck
        broke = any(found.outcome in BROKEN for rank, found in enumerate(ended) if rank not in stuck)
        behind = min((len(self.logs[rank]) for rank in stuck), default=0)
        outcomes = []
        for rank, found in enumerate(ended):
            outcome: Outcome = "error" if found.outcome == BAD_SUBJECT else found.outcome
            judged = judgements_from(self.worlds[rank].known.pop(JUDGED, []))
            calls = tuple(self.logs[rank])
            told = RankOutcome(rank, outcome, found.message, found.likely, collectives=calls, judgements=judged)
            if rank in stuck:
                waits = rank not in self.at_odds if self.at_odds else broke or len(self.logs[rank]) > behind
                word: Outcome = "timeout" if waits or not self.at_odds else "error"
                told = replace(told, outcome=word, message=clipped(proof), likely="", bystander=waits)
            outcomes.append(told)
        ends = {told.outcome for told in outcomes}  # ranks may differ on whether a clause applies
        if (len(ends) > 1 or ends & {*BROKEN}) and (why := shared.why_not(self.names, self.is_group_shared)):
            return [RankOutcome(rank, "skip", why) for rank in range(self.size)]
        return outcomes
