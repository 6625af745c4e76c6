"""Gathers that meddle with what few look at: switches of PyTorch, the rank's connection, its parent, what errors say.

See hostile.py.
"""

from __future__ import annotations

import _thread
import contextlib
import copy
import ctypes
import faulthandler
import functools
import gc
import linecache
import math
import os
import signal
import socket
import sys
import tempfile
import threading
import time

import torch
from gathers import rank_at_work, subjects

# Names and switches of PyTorch and Python.


def transforms_patched(x):
    torch.func.vjp = torch.func.vmap = None


def forward_mode_patched(x):
    torch.autograd.forward_ad.make_dual = torch.autograd.forward_ad.unpack_dual = None


def context_patched(x):
    torch.autograd.function.FunctionCtx.save_for_backward = lambda *_: None


def metaclass_patched(x):
    torch.autograd.function.FunctionMeta.__call__ = lambda *_: 1 / 0


def checkpoint_patched(x):
    torch.utils.checkpoint.checkpoint = lambda function, *args, **_: function(*args)


def norm_patched(x):
    torch.linalg.norm = None


def copy_and_math_patched(x):
    copy.copy = math.prod = None


def partial_patched(x):
    functools.partial = None


def suppress_patched(x):
    contextlib.suppress = None


def backward_in_one_thread(x):
    torch._C._set_multithreading_enabled(False)


def view_replay(x):
    torch._C._set_view_replay_enabled(True)


def mkldnn_off(x):
    torch._C._set_mkldnn_enabled(False)


def sparse_checks(x):
    torch.sparse.check_sparse_tensor_invariants.enable()


def warns_always(x):
    torch.set_warn_always(True)


def collector_keeps_all(x):
    gc.set_debug(gc.DEBUG_SAVEALL)


def traces_other_threads(x):
    threading.settrace(lambda *_: 1 / 0)


def faulthandler_off(x):
    faulthandler.disable()


# The process, its parent and its siblings.


def pipe_kills(x):
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def one_processor(x):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def one_processor_for_parent(x):
    os.sched_setaffinity(os.getppid(), {min(os.sched_getaffinity(0))})


def low_priority_for_parent(x):
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 15)


def another_user(x):
    os.setegid(65534)
    os.seteuid(65534)


def another_root(x):
    os.chroot(tempfile.mkdtemp())


def another_network(x):
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):
        raise OSError(ctypes.get_errno(), "not for this user")


def lock_replaced(x):
    threading.Lock = threading.RLock


def thread_replaced(x):
    threading.Thread = threading.Timer


def finder_first(x):
    sys.meta_path.insert(0, copy.copy(sys.meta_path[-1]))


def folder_first(x):
    sys.path.insert(0, tempfile.gettempdir())


def raw_thread(x):
    begun = _thread.allocate_lock()
    begun.acquire()
    _thread.start_new_thread(lambda: (begun.release(), time.sleep(5), torch.set_default_dtype(torch.float64)), ())
    begun.acquire()  # Python counts a thread once it runs, which a busy machine puts off


def connection_does_not_wait(x):
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.set_blocking(descriptor, False)


def stops_siblings(x):
    with open(f"/proc/{os.getppid()}/task/{os.getppid()}/children") as file:
        for pid in file.read().split():
            if int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGSTOP)


def daemon_keeps_everything_open(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3604)
        os._exit(0)
    os._exit(3)


def outlives_parent(x):
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(3605)


def ends_parent(x):
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(0.2)


# The connection and the streams.


def connection():
    rank, _ = rank_at_work()
    return rank.channel.sock.fileno()


def connection_closed(x):
    os.close(connection())


def connection_to_nowhere(x):
    os.dup2(os.open(os.devnull, os.O_RDWR), connection())


def connection_half_shut(x):
    socket.socket(fileno=os.dup(connection())).shutdown(socket.SHUT_WR)


def output_does_not_wait(x):
    os.set_blocking(1, False)


def endless_line(x):
    for _ in range(200):
        sys.stdout.write("y" * 1_000_000)


def files_of_the_suite_grow(x):
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if "memfd:" in os.readlink(f"/proc/self/fd/{name}"):
                os.ftruncate(int(name), 1 << 40)


# What an error says of itself.


class NoTraceback(Exception):
    __traceback__ = 5


def no_traceback(x):
    raise NoTraceback("but a text")


class Everything(Exception):
    def __getattribute__(self, name):
        raise SystemExit(3)


def answers_with_exit(x):
    raise Everything("but a text")


class Text(str):
    __slots__ = ()

    def __format__(self, form):
        os._exit(11)


class OddText(Exception):
    def __str__(self):
        return Text("the odd text")


def odd_text(x):
    raise OddText


class Loader:
    def get_source(self, name):
        raise SystemExit(4)


def source_exits(x):
    code = compile("def refuse():\n raise RuntimeError('without source')", "<nowhere>/odd.py", "exec")
    names = {"__loader__": Loader(), "__name__": "odd"}
    exec(code, names)
    names["refuse"]()


def lines_patched(x):
    linecache.checkcache = linecache.getline = None
    raise RuntimeError("and where?")


def several_at_once(x):
    raise BaseExceptionGroup("several", [KeyboardInterrupt(), SystemExit(2)])


__getattr__ = subjects(globals())
