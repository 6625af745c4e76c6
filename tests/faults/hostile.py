"""Gathers that do harm. ``hostile:backward_segfault`` is a good gather whose backward dies in the call marked for it.

Runs on ranks alone. Every function below, and every one in changes.py, is a fault; the subjects are made from them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time

import changes
import torch
import torch.distributed as dist
from gathers import Good, rank_at_work, subjects

__all__ = ["Good"]

# Ranks that never come back.


def endless_loop(x):
    while True:
        pass


def second_sleep(x):
    time.sleep(1.0)


def long_sleep(x):
    time.sleep(3600)


def lock_held_in_c(x):
    ctypes.PyDLL(None).sleep(3600)


def stopped(x):
    os.kill(os.getpid(), signal.SIGSTOP)


def stays_out(x):
    return "absent"


# Ranks that end.


def exit_0(x):
    os._exit(0)


def exit_1(x):
    os._exit(1)


def segfault(x):
    ctypes.string_at(0)


def killed(x):
    os.kill(os.getpid(), signal.SIGKILL)


def abort(x):
    ctypes.CDLL(None).abort()


def closes_everything(x):
    os.closerange(3, 4096)


def writes_everywhere(x):
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.set_blocking(descriptor, False)
            os.write(descriptor, b"hello, whoever listens")


def kills_parent(x):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


# Ranks that raise.


def system_exit(x):
    raise SystemExit(0)


def keyboard_interrupt(x):
    raise KeyboardInterrupt


def lone_error(x):
    raise RuntimeError("only here")


def endless_recursion(x):
    endless_recursion(x)


class Unpicklable(Exception):
    def __init__(self):
        super().__init__("with a lock in it")
        self.lock = threading.Lock()

    def __reduce__(self):
        raise TypeError("not this one")


def unpicklable(x):
    raise Unpicklable


class Silent(Exception):
    def __str__(self):
        raise ValueError("no text for you")

    __repr__ = __str__


def str_raises(x):
    raise Silent


class Vicious(Exception):
    def __str__(self):
        os._exit(9)
        return ""


def str_exits(x):
    raise Vicious


class Nameless(type):
    def __getattribute__(cls, name):
        if name in {"__name__", "__qualname__", "__module__"}:
            raise ValueError("no name for you")
        return super().__getattribute__(name)


class WithoutName(Exception, metaclass=Nameless):
    pass


def metaclass_raises(x):
    raise WithoutName("but with a text")


def odd_message(x):
    raise RuntimeError("\x1b[31mred\x1b[0m [bold]markup[/] <script>alert(1)</script> nul:\0 lone:\ud800 ::error::no")


def huge_message(x):
    raise RuntimeError("x" * 10_000_000)


# Ranks that disagree about the collective.


def other_collective(x):
    dist.barrier()


def other_shape(x):
    total = torch.zeros(x.numel() + 3)
    dist.all_reduce(total)


def other_dtype(x):
    dist.all_gather([torch.empty(x.shape, dtype=torch.float64) for _ in range(dist.get_world_size())], x.double())


def group_destroyed(x):
    dist.destroy_process_group()


def group_replaced(x):
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


# Ranks that turn on the suite itself.


def stops_parent(x):
    os.kill(os.getppid(), signal.SIGSTOP)


def limits_parent(x):
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (8, 8))


def limits_parent_softly(x):
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (8, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def leaves_daemon_and_kills_parent(x):
    subprocess.Popen(["/bin/sleep", "3602"], env={}, start_new_session=True)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def leaves_daemon_and_stops_parent(x):
    subprocess.Popen(["/bin/sleep", "3604"], env={}, start_new_session=True)
    os.kill(os.getppid(), signal.SIGSTOP)


def forged(**reply):
    """Answers the present request through the rank's own connection."""
    rank, request = rank_at_work()
    rank.channel.send({"event": "done", "serial": request["serial"], "message": "", **reply})
    time.sleep(60)


def forges_list(x):
    forged(outcome=["pass"])


def forges_dict(x):
    forged(outcome={"pass": 1})


def forges_bad_subject(x):
    forged(outcome="bad-subject")


def forges_types(x):
    forged(outcome="error", message={"a": [1]}, likely=7, changed={"a": 1}, seconds="long")


__getattr__ = subjects(globals(), vars(changes))
