"""What runs in a rank: sets up the group, imports the subject, runs test bodies, says how each one ended."""

from __future__ import annotations

import faulthandler
import importlib
import os
import random
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from conformance import collectives, footprint
from conformance.call_log import Log
from conformance.outcome import Deviation, NotApplicable, Skipped, clipped
from conformance.subject import BadSubject, Subject, check_subject, resolve
from conformance.wire import Channel
from conformance.world import World

#: A group's own timeout: far beyond any test's deadline, which is the controller's to keep.
GROUP_TIMEOUT = timedelta(hours=1)


def main(configuration: dict[str, Any], descriptors: dict[str, int]) -> int:
    """Be one rank until the controller hangs up.

    Args:
        configuration: rank, size, backend, device, group (whether to set one up), host, port, interface, debug.
        descriptors: control, output, stack, log and, on rank 0 of a group, listener.
    """
    channel = Channel(socket.socket(fileno=descriptors["control"]))
    _standard_streams(descriptors["output"])
    faulthandler.enable(file=descriptors["stack"], all_threads=False)
    faulthandler.register(signal.SIGUSR1, file=descriptors["stack"], all_threads=True)
    rank = Rank(channel, configuration, descriptors["log"], descriptors.get("listener"))
    rank.serve()
    return 0


def _standard_streams(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


class Rank:
    """One rank of a world: answers the controller's requests one by one."""

    def __init__(self, channel: Channel, configuration: dict[str, Any], log: int, listener: int | None) -> None:
        self.channel = channel
        self.configuration = configuration
        self.subject: Subject | None = None
        self.around: dict[str, Any] | None = None
        self.memory = footprint.Memory()
        self.log = Log(log)
        self.world = World(
            rank=configuration["rank"],
            size=configuration["size"],
            backend=configuration["backend"],
            device=configuration["device"],
            exchange=self.exchange,
        )
        if configuration["group"]:
            self.join(listener)
        collectives.record(self.log)

    def join(self, listener: int | None) -> None:
        """Set up the process group, on the interface that leads to the other ranks."""
        if self.configuration["interface"]:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", self.configuration["interface"])
        if self.configuration.get("debug"):
            os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
            dist.set_debug_level_from_env()
        if self.world.device.startswith("cuda"):
            torch.cuda.set_device(self.world.device)
        store = dist.TCPStore(
            self.configuration["host"],
            self.configuration["port"],
            world_size=self.world.size,
            is_master=self.world.rank == 0,
            master_listen_fd=listener,
            wait_for_workers=False,
            timeout=timedelta(seconds=60),
        )
        dist.init_process_group(
            self.world.backend, store=store, rank=self.world.rank, world_size=self.world.size, timeout=GROUP_TIMEOUT
        )

    def serve(self) -> None:
        """Answer requests until the controller hangs up."""
        self.channel.send({"event": "ready"})
        operations = {"load": self.load, "test": self.test}
        while (request := self.channel.receive()) is not None:
            operations[request["op"]](request)

    def exchange(self, value: Any) -> list[Any]:
        """Trade a plain value with all ranks of the world, through the controller."""
        self.channel.send({"event": "exchange", "value": value})
        answer = self.channel.receive()
        if answer is None:
            os._exit(0)
        return list(answer["values"])

    def load(self, request: dict[str, Any]) -> None:
        """Import the subject, and whatever is to be set up before it."""
        sys.path[:0] = [path for path in request["path"] if path not in sys.path]

        def importing() -> None:
            for reference in request.get("setup", ()):
                setup = resolve_callable(reference)
                setup()
            self.subject = named(request)
            if self.subject is not None and request.get("sample"):
                self.subject.samples(self.world)

        known = set(sys.modules)
        done = self.attempt(importing)
        if self.subject is not None:
            done |= {"spec": self.subject.spec}
        done["files"] = files_of(set(sys.modules) - known)
        self.around = None
        self.channel.send({"event": "done", "serial": request["serial"], **done})

    def test(self, request: dict[str, Any]) -> None:
        """Run one test body and report its outcome and what it changed around it."""
        before = self.around or footprint.take()
        self.log.clear()
        seed()

        def running() -> None:
            body = getattr(importlib.import_module(request["module"]), request["function"])
            offered = {"subject": self.subject, "world": self.world, **request["cases"]}
            body(**{name: offered[name] for name in request["arguments"]})
            if self.world.device.startswith("cuda"):
                torch.cuda.synchronize()  # what a kernel runs into belongs to the test that started it

        done = self.attempt(running)
        if done["outcome"] == "bad-subject":  # its inputs, which were good before, now are not
            done["outcome"] = "error"
        self.around = footprint.take()  # as the next test finds it, too
        done["changed"] = footprint.differences(before, self.around) + self.memory.differences()
        footprint.flush()
        self.channel.send({"event": "done", "serial": request["serial"], **done})

    def attempt(self, action: Callable[[], None]) -> dict[str, Any]:
        """Run something and say how it ended, whatever it raises."""
        start = time.perf_counter()
        outcome, message, likely = "pass", "", ""
        try:
            action()
        except NotApplicable as error:
            outcome, message = "not-applicable", text_of(error)
        except Skipped as error:
            outcome, message = "skip", text_of(error)
        except Deviation as error:
            outcome, message, likely = "fail", text_of(error), error.likely
        except BadSubject as error:
            outcome, message = "bad-subject", text_of(error)
        except BaseException as error:
            try:
                outcome, message = "error", explain(error)
            except MemoryError:  # there is no more of it, not even for a traceback
                outcome, message = "error", text_of(error)
        return {
            "outcome": outcome,
            "message": clipped(message),
            "likely": likely,
            "seconds": time.perf_counter() - start,
        }


def seed() -> None:
    """Set the seeds of a test. ``torch.manual_seed`` also prepares devices that nobody uses, for milliseconds."""
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)
    random.seed(0)


def named(request: dict[str, Any]) -> Subject | None:
    """The subject that a request names, or carries: only the controller's own process makes such pickles."""
    if request.get("payload"):
        import base64

        import cloudpickle

        return check_subject(cloudpickle.loads(base64.b64decode(request["payload"])))
    if request["subject"] is None:
        return None
    return resolve(request["subject"], request["spec"], request["inputs"])


def files_of(modules: set[str]) -> list[str]:
    """The source files of some modules: what a watched subject is made of."""
    return sorted({str(getattr(sys.modules.get(name), "__file__", None) or "") for name in modules} - {""})


def resolve_callable(reference: str) -> Callable[[], object]:
    """Import ``module:callable``, something to be called once on each rank before any subject is imported."""
    from conformance.subject import load

    target = load(reference)
    if not callable(target):
        raise BadSubject(f"{reference!r} is a {type(target).__name__}, not a callable")
    return target  # type: ignore[no-any-return]


def text_of(error: BaseException) -> str:
    """An exception's text, even where its ``__str__`` raises."""
    try:
        return str(error)
    except BaseException as inner:
        return f"<{type(error).__name__}, whose __str__ raised {type(inner).__name__}>"


def explain(error: BaseException) -> str:
    """Type, text and the traceback's frames below our own, of any exception at all."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if os.path.basename(frame.filename) != "rank.py"] or list(frames)
    if len(inner) > 24:
        inner = [*inner[:12], *inner[-12:]]
    lines = "".join(traceback.format_list(inner)).rstrip()
    return f"{type(error).__name__}: {text_of(error)}\n{lines}"
