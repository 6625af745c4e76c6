"""Run a rank: join the process group, import the subject, run test bodies, and report how each ended."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from conformance.core.errors import UsageError
from conformance.core.outcomes import BAD_SUBJECT
from conformance.core.prose import clipped
from conformance.kit.answers import ANSWERED, FUNCTIONS, LISTENERS
from conformance.kit.attempt import Attempt, attempt, call_body, explain
from conformance.kit.frames import name_of, place_of, text_of
from conformance.kit.loading import check_subject, load_for, resolve
from conformance.kit.process import isolation
from conformance.kit.process.copies import in_a_copy
from conformance.kit.process.growth import Growth
from conformance.kit.subject import Subject
from conformance.kit.world import JUDGED, LeftAlone, World, alone, as_plain_data
from conformance.ranks import collectives
from conformance.ranks.call_log import Log
from conformance.ranks.channel import Channel
from conformance.ranks.place import GLOO_INTERFACE
from conformance.ranks.unwaited import Work, ended_at_once

#: A group's own timeout: far beyond any test's deadline, which the controller keeps.
GROUP_TIMEOUT = timedelta(hours=1)
#: Variables that let NCCL's watchdog end processes: only the controller ends ranks, and innocent ones go on.
WATCHDOG = (
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS",
)


def main(configuration: dict[str, Any], descriptors: dict[str, int], made: type[Rank] | None = None) -> int:
    """Be one rank until the controller hangs up.

    Args:
        made: the class that answers requests, if not :class:`Rank`.
        configuration: rank, size, backend, device, group (whether to set one up), host, port, interface, debug.
        descriptors: control, output, stack, log and, on rank 0 of a group, listener.
    """
    channel = Channel(socket.socket(fileno=descriptors["control"]))
    _standard_streams(descriptors["output"])
    faulthandler.enable(file=descriptors["stack"], all_threads=False)
    faulthandler.register(signal.SIGUSR1, file=descriptors["stack"], all_threads=True)
    no_warnings()
    # After a fork PyTorch makes its thread pool anew at the next such call: autograd's threads for two devices, which
    # make it at the same time, would abort.
    torch.set_num_threads(torch.get_num_threads())
    (made or Rank)(channel, configuration, descriptors["log"], descriptors.get("listener")).serve()
    return 0


def no_warnings() -> None:
    """Ignore warnings, as ``check`` does: the suite provokes them, and the user's filters are meant for other code."""
    warnings.simplefilter("ignore")


def _standard_streams(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


class Rank:
    """One rank of a world: it answers the controller's requests one by one."""

    def __init__(self, channel: Channel, configuration: dict[str, Any], log: int, listener: int | None) -> None:
        self.channel = channel
        self.configuration = configuration
        self.subject: Subject | None = None
        self.around: dict[str, Any] | None = None
        self.log = Log(log)
        self.world = World(
            rank=configuration["rank"],
            size=configuration["size"],
            backend=configuration["backend"],
            device=configuration["device"],
            exchange=self.exchange if configuration["size"] > 1 else alone,
        )
        self.set_up(configuration, listener)

    def set_up(self, configuration: dict[str, Any], listener: int | None) -> None:
        """Join the process group, if there is one."""
        set_current_device(self.world.device)
        if configuration["group"]:
            self.join(listener)
        self.growth = Growth()  # memory of a driver and a backend is not left by a test
        self.recording = collectives.recorded(self.log)  # for the life of the rank
        self.recording.__enter__()

    def join(self, listener: int | None) -> None:
        """Set up the process group, on the interface that leads to the other ranks."""
        if self.configuration["interface"]:
            for name in (GLOO_INTERFACE, "NCCL_SOCKET_IFNAME"):
                os.environ[name] = os.environ.get(name) or self.configuration["interface"]
        for name in WATCHDOG:
            os.environ.setdefault(name, "0")
        if self.configuration.get("debug"):
            os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
            dist.set_debug_level_from_env()
        store = dist.TCPStore(
            self.configuration["host"],
            self.configuration["port"],
            world_size=self.world.size,
            is_master=self.world.rank == 0,
            master_listen_fd=listener,
            wait_for_workers=False,
            timeout=timedelta(seconds=60),
        )
        device = torch.device(self.world.device)
        dist.init_process_group(
            self.world.backend,
            store=store,
            rank=self.world.rank,
            world_size=self.world.size,
            timeout=GROUP_TIMEOUT,
            device_id=None if device.type == "cpu" else device,
        )
        if device.type != "cpu":  # the first test must not pay for the start of the backend
            dist.all_reduce(torch.zeros(1, device=device))
            synchronize(self.world.device)

    def serve(self) -> None:
        """Answer requests until the controller hangs up."""
        self.channel.send({"event": "ready"})
        LISTENERS[:] = [lambda seconds: self.channel.send({"event": "called", "seconds": seconds})]
        operations = {"load": self.load, "test": self.test}
        while (request := self.channel.receive()) is not None:
            operations[request["op"]](request)

    def exchange(self, value: Any, raised: bool = False) -> list[Any]:
        """Exchange a plain value with all ranks of the world, through the controller.

        Raises:
            LeftAlone: this rank has raised, and the others wait for it elsewhere.
            TypeError: the value is no plain data.
        """
        with as_plain_data():
            self.channel.send({"event": "exchange", "value": value, "raised": raised})
        answer = self.channel.receive()
        if answer is None:
            os._exit(0)
        if "values" not in answer:
            raise LeftAlone
        return list(answer["values"])

    def load(self, request: dict[str, Any]) -> None:
        """Call the setups, then import the subject."""
        sys.path[:0] = [path for path in request["path"] if path not in sys.path]

        def importing() -> None:
            for reference in request.get("setup", ()):
                set_up(reference)
            self.subject = named(request)
            if self.subject is not None and request.get("look"):
                self.look(request["look"])

        known = set(sys.modules)
        done = asdict(attempted(importing))
        if self.subject is not None:
            subject = self.subject
            done |= {"spec": subject.spec, "types": subject.types or "", "ranks": list(subject.ranks or ())}
            done["gathers"] = subject.gathers
        done["files"] = files_of(set(sys.modules) - known)
        self.around = None
        self.channel.send({"event": "done", "serial": request["serial"], **done})

    def look(self, kind: str) -> None:
        """Make the subject's samples, or compare its types with a call."""
        self.look_in(self.world, kind)

    def look_in(self, world: World, kind: str) -> None:
        """Do the same on one rank of a world."""
        assert self.subject is not None
        if kind == "samples":
            self.subject.samples(world)
        else:
            from conformance.kit.spmd.claims import expect_fitting_types

            expect_fitting_types(self.subject, world)

    def test(self, request: dict[str, Any]) -> None:
        """Run one test body; report its outcome and its changes of the process."""
        no_warnings()  # even if the subject's import changed the filters
        before = self.around or isolation.snapshot()
        self.log.clear()

        world = replace(self.world, resolution=request["resolution"])

        def running() -> object:
            offered = {"subject": self.subject, "world": world, "in_a_copy": in_a_copy, **request["cases"]}
            return call_body(request["module"], request["function"], request["arguments"], offered)

        if request["ended_at_once"]:
            with ended_at_once() as work, self.world.forgetting():
                ended = attempted(running)
        else:
            work, ended = Work(), attempted(running)
        # An error in a kernel belongs to the test that started it; a device that failed cannot be used again.
        device = attempted(lambda: synchronize(self.world.device))
        done = asdict(device if ended.outcome == "pass" != device.outcome else ended)
        if done["outcome"] == BAD_SUBJECT:  # its inputs were good before
            done["outcome"] = "error"
        self.around = isolation.snapshot()  # the next test begins with this state
        done["changed"] = isolation.changed_facts(before, self.around) + self.growth.differences()
        done["changed"] += [] if device.outcome == "pass" else ["the device, which no longer answers"]
        done["judgements"] = self.world.known.pop(JUDGED, [])
        done["functions"] = FUNCTIONS.get(self.subject.label, ()) if self.subject else ()
        done["left_behind"] = work.is_left
        isolation.stop_timer_and_flush()
        answered = bool(ANSWERED)  # so far; ranks that refuse every call can be reused
        self.channel.send({"event": "done", "serial": request["serial"], "answered": answered, **done})


def set_current_device(device: str) -> None:
    """Make a device the current one of this rank."""
    if device != "cpu":
        torch.accelerator.set_device_index(torch.device(device).index or 0)


def synchronize(device: str) -> None:
    """Wait for all that a device still computes."""
    if device != "cpu":
        torch.accelerator.synchronize(device)


def attempted(action: Callable[[], object]) -> Attempt:
    """Run something and return how it ended; a KeyboardInterrupt on a rank comes from the subject."""
    try:
        return attempt(action)
    except KeyboardInterrupt as error:
        return Attempt("error", clipped(explain(error)), "", 0.0)


def named(request: dict[str, Any]) -> Subject | None:
    """Load the subject that a request names, or contains as a pickle: only the controller makes these."""
    if request.get("payload"):
        import base64

        import cloudpickle

        return check_subject(cloudpickle.loads(base64.b64decode(request["payload"])))
    if request["subject"] is None:
        return None
    return resolve(request["subject"], request["spec"], request["inputs"], request.get("types"))


def files_of(modules: set[str]) -> list[str]:
    """List the source files of some modules, for ``watch``."""
    return sorted({str(getattr(sys.modules.get(name), "__file__", None) or "") for name in modules} - {""})


def set_up(reference: str) -> None:
    """Call ``module:callable`` once on a rank, before any subject is imported.

    Raises:
        UsageError: it is not a callable, or raises; no subject is to blame.
    """
    setup = load_for("--setup", reference)
    if not callable(setup):
        raise UsageError(f"--setup {reference}: it is of type {type(setup).__name__}, not a callable")
    try:
        setup()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"--setup {reference} raised {name_of(error)}: {text_of(error)} ({place_of(error)})"
        ) from error
