"""Gathers that spoil what the suite itself stands on: Python, its libraries, the process, the files. See hostile.py."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import json
import locale
import logging
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import traceback
import tracemalloc
import unittest
import warnings

import torch
import torch.distributed as dist
from hostile import made

KEPT: list[object] = []


# What Python itself is made of.


def builtins_replaced(x):
    builtins.len = lambda *_: 0
    builtins.isinstance = lambda *_: True
    builtins.print = None


def builtins_deleted(x):
    for name in ("open", "sorted", "getattr"):
        delattr(builtins, name)


def open_raises(x):
    def refused(*_, **__):
        raise PermissionError("no files today")

    builtins.open = refused


def import_raises(x):
    def refused(*_, **__):
        raise ImportError("no modules today")

    builtins.__import__ = refused


def recursion_limit_low(x):
    sys.setrecursionlimit(len(traceback.extract_stack()) + 60)


def settrace(x):
    sys.settrace(lambda *_: 1 / 0)


def setprofile(x):
    def profile(*_):
        raise RuntimeError("profiled")

    sys.setprofile(profile)


def excepthook(x):
    sys.excepthook = sys.unraisablehook = threading.excepthook = lambda *_: os._exit(4)


def audit_hook(x):
    def hook(event, arguments):
        if event in {"open", "socket.connect", "os.fork"}:
            raise RuntimeError("audited")

    sys.addaudithook(hook)


def tracemalloc_on(x):
    tracemalloc.start(25)


def gc_callback(x):
    def called(phase, info):
        raise RuntimeError("in the collector")

    gc.callbacks.append(called)
    gc.set_threshold(1)


def switch_interval(x):
    sys.setswitchinterval(1000.0)


def warnings_are_errors(x):
    warnings.filterwarnings("error")
    warnings.warn("now", UserWarning, stacklevel=1)


# Libraries that the suite uses.


def json_patched(x):
    json.loads = lambda *_, **__: {"op": "load"}


def struct_patched(x):
    struct.pack = lambda *_: b""


def traceback_patched(x):
    traceback.extract_tb = lambda *_: 1 / 0
    raise RuntimeError("which cannot be told")


def time_stands_still(x):
    time.perf_counter = time.monotonic = time.time = lambda: 0.0


def sleep_returns_at_once(x):
    time.sleep = lambda *_: None


def allclose_is_true(x):
    torch.allclose = torch.equal = lambda *_, **__: True


def equal_raises(x):
    def refused(*_, **__):
        raise RuntimeError("nothing is equal")

    torch.equal = torch.allclose = torch.isclose = refused


def tensor_eq_patched(x):
    torch.Tensor.__eq__ = lambda self, other: True
    torch.Tensor.all = lambda self, *_: True


def manual_seed_patched(x):
    torch.manual_seed = lambda *_: None
    random.seed = lambda *_: None


def testing_patched(x):
    torch.testing.assert_close = lambda *_, **__: None
    unittest.TestCase.assertEqual = lambda *_, **__: None
    with contextlib.suppress(ImportError):
        import pytest

        pytest.fail = lambda *_, **__: None


def backward_patched(x):
    torch.Tensor.backward = lambda *_, **__: None
    torch.autograd.grad = lambda *_, **__: ()


def barrier_patched(x):
    dist.barrier = dist.all_reduce = lambda *_, **__: None


def suite_patched(x):
    from conformance.kit import attempt, expect

    expect.equal = expect.close = lambda *_, **__: None
    attempt.attempt = lambda action: attempt.Attempt("pass", "", "", 0.0)


def witness_of_state_patched(x):
    from conformance.kit import isolation

    isolation.take = dict
    os.environ["SPILLED"] = "1"


# The process.


def exits_in_thread(x):
    threading.Thread(target=lambda: (time.sleep(0.05), os._exit(6)), daemon=True).start()
    time.sleep(0.3)


def raises_in_thread(x):
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()


def threads_by_the_hundred(x):
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()


def thread_not_daemon(x):
    threading.Thread(target=time.sleep, args=(3600,)).start()


def alarm_now(x):
    signal.alarm(1)


def fork_bomb(x):
    for _ in range(50):
        if os.fork() == 0:
            time.sleep(3600)
            os._exit(0)


def double_fork_daemon(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3604)
        os._exit(0)


def kills_its_group(x):
    os.killpg(0, signal.SIGTERM)
    time.sleep(5)


def kills_sibling(x):
    for place in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            pid, _, rest = place.read_text().partition(" ")
            if int(rest.rpartition(") ")[2].split()[1]) == os.getppid() and int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)


def waits_for_children(x):
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def sigusr1_ignored_and_hangs(x):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    time.sleep(3600)


def all_signals_blocked_and_hangs(x):
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    time.sleep(3600)


def nice(x):
    os.nice(19)


def new_session(x):
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError):
        os.setpgid(0, os.getppid())


def limit_of_files(x):
    resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))


def limit_of_file_size(x):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit_of_processes(x):
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


def limit_of_cpu(x):
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


def limit_of_stack(x):
    resource.setrlimit(resource.RLIMIT_STACK, (65536, 65536))


def atexit_hangs(x):
    atexit.register(time.sleep, 3600)
    raise SystemExit(0)


class Deleted:
    def __del__(self):
        raise RuntimeError("in __del__")


def raises_when_deleted(x):
    KEPT.append(Deleted())
    KEPT.clear()


class ExitsWhenDeleted:
    def __del__(self):
        os._exit(8)


def exits_in_collector(x):
    cycle = [ExitsWhenDeleted()]
    cycle.append(cycle)
    del cycle
    gc.collect()


# Streams, descriptors and files.


def closes_at_random(x):
    for descriptor in random.Random(3).sample(range(3, 30), 8):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def descriptors_leak(x):
    for _ in range(200):
        KEPT.append(open(os.devnull))  # noqa: SIM115


def descriptors_end(x):
    with contextlib.suppress(OSError):
        while True:
            KEPT.append(socket.socketpair())


def huge_line_on_stderr(x):
    os.write(2, b"e" * 5_000_000)


def null_bytes_on_stdout(x):
    os.write(1, b"\0\xff\xfe" * 100_000)


def logs_to_closed_stream(x):
    stream = open(os.devnull, "w")  # noqa: SIM115
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    stream.close()
    logging.getLogger().error("nobody hears this")


def stdout_is_a_full_pipe(x):
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    KEPT.append(reading)
    os.set_blocking(1, True)
    os.write(1, b"z" * 60_000)


def working_directory_gone(x):
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def chroot_fails(x):
    os.chroot("/nowhere")


def temporary_folder_locked(x):
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0)
    tempfile.tempdir = folder
    os.environ["TMPDIR"] = folder
    shutil.rmtree(folder, ignore_errors=True)


def locale_changed(x):
    for name in ("de_DE.UTF-8", "C"):
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, name)
    os.environ["LC_ALL"] = "tr_TR.UTF-8"


def default_dtype_half(x):
    torch.set_default_dtype(torch.float16)


def inference_mode_entered(x):
    torch.inference_mode().__enter__()


def printoptions(x):
    torch.set_printoptions(precision=1, threshold=1)


def flush_denormal(x):
    torch.set_flush_denormal(True)


def interop_threads(x):
    with contextlib.suppress(RuntimeError):
        torch.set_num_interop_threads(7)


def sys_path_emptied(x):
    sys.path.clear()
    sys.meta_path.clear()


def modules_cleared(x):
    for name in [name for name in sys.modules if name.startswith("conformance")]:
        del sys.modules[name]


FAULTS = [
    name for name, value in list(vars().items()) if getattr(value, "__module__", "") == __name__ and callable(value)
]
FAULTS = [name for name in FAULTS if name not in {"Deleted", "ExitsWhenDeleted"}]
for _name in FAULTS:
    for _place in ("forward", "backward", "end"):
        vars()[f"{_place}_{_name}"] = made(f"{_place}_{_name}", vars()[_name], _place)
