"""Commands of Python, each in a fork of a process that has imported torch, with a forkserver that is a fork as well.

What they print, write and return is what it is in a process of its own, but importing torch takes longer than what most
of them are about. A test of how processes start and end, of signals, or of what is imported starts the real command.
So are the forkservers of the tests' own process: forks of that same process, which give themselves up for adoption.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import inspect
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from conformance.ranks.channel import receive, send
from conformance.ranks.limits import KINDS
from conformance.ranks.procfs import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, children, prctl

#: How long what a command started may take to end after it (seconds).
LEFT_LIMIT = 60.0
#: The process that tests run in, and where it looks for modules.
TESTS = os.getpid(), os.environ.get("PYTHONPATH")
#: What the commands import.
COMMANDS = ("pytest", "conformance.cli.run", "conformance.cli.finish", "rich.console", "xdist.plugin")


def run(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, typed: str = "", within: float = 600.0
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS``, a module after ``-m`` or a script, and see that nothing of it is left."""
    server = _server()
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(typed.encode())
        given.seek(0)
        request = {"words": words, "cwd": str(cwd), "env": dict(os.environ if env is None else env)}
        send(server, request, [file.fileno() for file in (given, out, err)])
        pid = receive(server)[0]["pid"]
        server.settimeout(within + LEFT_LIMIT)
        try:
            ended, _ = receive(server)
        except TimeoutError:
            os.killpg(pid, signal.SIGKILL)
            receive(server)
            raise subprocess.TimeoutExpired(words, within) from None
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode("utf-8", "replace"))
    assert not ended["left"], ended["left"]
    return subprocess.CompletedProcess(words, ended["status"], *said)


@functools.cache
def _server() -> socket.socket:
    """The process that commands are forked from; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    root = str(Path(__file__).parents[1])
    around |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
            cwd=root, env=around, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
        )  # fmt: skip
    atexit.register(process.wait)
    atexit.register(ours.close)  # which is done first, and ends it
    return ours


class Child:
    """Stands for a process that was started, as a forkserver's owner knows it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, None as long as it runs."""
        if self.returncode is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if found else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def forked(words: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **options: Any) -> Any:
    """What stands for ``subprocess.Popen`` where a command starts forkservers: only one without threads is forked."""
    if len(os.listdir("/proc/self/task")) > 1 or not words[-1].isdigit():
        return subprocess.Popen(words, pass_fds=pass_fds, env=env, **options)
    pid = os.fork()
    if pid == 0:
        _become(words[2:], env, keep=pass_fds, folder=None)
    return Child(pid)


def adopted(words: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **options: Any) -> Any:
    """What stands for it where the tests do so; where they change what is imported, it is a process of its own."""
    if (os.getpid(), os.environ.get("PYTHONPATH")) != TESTS:
        return subprocess.Popen(words, pass_fds=pass_fds, env=env, **options)
    limits = [(kind, *resource.getrlimit(kind)) for kind in KINDS]
    around = {"cwd": os.getcwd(), "env": dict(env), "limits": limits}
    server = _server()
    with open(os.devnull, "rb") as nothing:
        send(server, {"adopted": words[2:], **around}, [nothing.fileno(), 1, 2, *pass_fds])
    return Child(receive(server)[0]["pid"])


class Started:
    """Stands for the module ``subprocess`` where forkservers are started."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self, start: Callable[..., Any]) -> None:
        self.Popen = start


def _become(words: Sequence[str], env: Mapping[str, str], *, keep: Sequence[int], folder: str | None) -> NoReturn:
    """Go on as ``python WORDS``: with this environment, path and folder, and with no descriptor but these."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in keep:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    os.environ.clear()
    os.environ.update(env)
    if folder is not None:
        os.chdir(folder)
    first = [] if folder is None else [folder if words[0] == "-m" else str(Path(words[0]).parent)]
    given = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:] = [*first, *given, *BASE]
    sys.meta_path[:], warnings.filters[:] = FINDERS, FILTERS  # pytest, which may be what forks, has its own
    warnings._filters_mutated()  # type: ignore[attr-defined]
    sys.stdout, sys.stderr, sys.excepthook = sys.__stdout__, sys.__stderr__, sys.__excepthook__
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in env
    importlib.invalidate_caches()
    sys.argv = list(words[1:] if words[0] == "-m" else words)
    os._exit(_ended(*words[:2]))


def _ended(first: str, module: str = "") -> int:
    """The status of ``python WORDS``. An interpreter that has torch takes longer to end than some commands do."""
    try:
        if first == "-m":
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(first, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


#: What an interpreter begins with that is told nothing.
FINDERS, FILTERS = list(sys.meta_path), list(warnings.filters)
BASE = [entry for entry in sys.path if entry not in {"", str(Path(__file__).parents[1]), os.getcwd()}]


def _serve(descriptor: int) -> None:
    from _pytest.assertion.rewrite import AssertionRewritingHook

    from conformance.core import catalog, clauses, homes
    from conformance.kit.specs import specification
    from conformance.ranks import client
    from conformance.ranks.preloads import OPTIONAL, PRELOAD, TRANSFORMS, preload

    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    suite = [test.module for test in catalog.suite() if test.module.startswith("conformance.")]
    preload((*PRELOAD, *OPTIONAL, *TRANSFORMS, *COMMANDS, *dict.fromkeys(suite)))
    clauses.registry()
    for name in homes.ours():
        specification(name)
    inspect.getmodule(inspect.currentframe())  # finds the file of every module, as whoever registers an operator does
    AssertionRewritingHook._warn_already_imported = lambda *_: None  # type: ignore[method-assign]
    server = socket.socket(fileno=descriptor)
    while True:
        request, descriptors = receive(server)
        if request is None:
            return
        if "adopted" in request:
            send(server, {"pid": _given_up(request, descriptors)})
            continue
        pid = os.fork()
        if pid == 0:
            for number, given in enumerate(descriptors):
                os.dup2(given, number)
            client.subprocess = Started(forked)  # type: ignore[assignment]
            _become(request["words"], request["env"], keep=(), folder=request["cwd"])
        for given in descriptors:
            os.close(given)
        send(server, {"pid": pid})
        _, status = os.waitpid(pid, 0)
        send(server, {"status": os.waitstatus_to_exitcode(status), "left": _left()})


def _given_up(request: dict[str, Any], descriptors: list[int]) -> int:
    """Fork a process whose parent ends at once, so that the process that asks for it adopts it."""
    told, telling = os.pipe()
    prctl(PR_SET_CHILD_SUBREAPER, 0)
    between = os.fork()
    if between == 0:
        if pid := os.fork():
            os.write(telling, str(pid).encode())
            os._exit(0)
        os.chdir(request["cwd"])
        for kind, *limits in request["limits"]:
            resource.setrlimit(kind, limits)
        *streams, own = descriptors
        for number, given in enumerate(streams):
            os.dup2(given, number)
        words = [*request["adopted"][:2], str(own), *request["adopted"][3:]]
        _become(words, request["env"], keep=(own,), folder=None)
    os.waitpid(between, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid = int(os.read(told, 20))
    for descriptor in (told, telling, *descriptors):
        os.close(descriptor)
    return pid


def _left() -> list[str]:
    """What is still there of a command, which is killed."""
    limit = time.monotonic() + LEFT_LIMIT
    while (left := _living()) and time.monotonic() < limit:
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return list(left.values())


def _living() -> dict[int, str]:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    found = {}
    for pid in children(os.getpid()):
        with contextlib.suppress(OSError):
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
