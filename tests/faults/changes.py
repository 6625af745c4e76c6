"""Faults that change what the next test finds, and pass. See hostile.py, which has their subjects."""

from __future__ import annotations

import _thread
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings

import torch
import torch.distributed as dist

# What everybody looks at.


def prints_much(x):
    for _ in range(100):
        sys.stdout.write("y" * 1_000_000 + "\n")


def closes_stdout(x):
    sys.stdout.close()
    os.close(1)


def replaces_stdout(x):
    sys.stdout = None


def default_dtype(x):
    torch.set_default_dtype(torch.float64)


def default_device(x):
    torch.set_default_device("meta")


def grad_mode(x):
    torch.set_grad_enabled(False)
    torch._C._set_grad_enabled(False)


def seed(x):
    torch.manual_seed(7)


def threads(x):
    torch.set_num_threads(3)


def environment(x):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    os.environ["HOME"] = "/nowhere"


def working_directory(x):
    os.chdir("/")


def signal_handlers(x):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def alarm(x):
    signal.setitimer(signal.ITIMER_REAL, 0.2)


def thread_left(x):
    threading.Thread(target=time.sleep, args=(3600,), name="left", daemon=True).start()


def child_left(x):
    subprocess.Popen(["sleep", "3601"], start_new_session=True)


def patches_torch(x):
    torch.Tensor.sum = lambda *args, **options: torch.tensor(42.0)
    torch.zeros = None


HOARD: list[torch.Tensor] = []


def memory_grows(x):
    HOARD.append(torch.ones(10 << 18))


def memory_jumps(x):
    HOARD.append(torch.ones(350 << 18))


def forks_and_runs_on(x):
    os.fork()


def memory_ends(x):
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    # Little is left: enough for Python to tell of it, where it would else depend on what is lying about.
    resource.setrlimit(resource.RLIMIT_AS, (taken + (32 << 20),) * 2)
    torch.ones(1 << 28)


def patches_machinery(x):
    import json

    json.dumps = None


# Where few look.


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class DispatchMode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def function_mode(x):
    Mode().__enter__()


def dispatch_mode(x):
    DispatchMode().__enter__()


def functorch_level(x):
    torch._C._functorch._grad_increment_nesting()


def dual_level(x):
    torch.autograd.forward_ad.enter_dual_level()


def autocast(x):
    torch.set_autocast_dtype("cpu", torch.float16)


def warning_filters(x):
    warnings.simplefilter("error")


def saved_hooks(x):
    torch._C._autograd._push_saved_tensors_default_hooks(lambda tensor: tensor, lambda tensor: tensor)


def matmul_precision(x):
    torch.set_float32_matmul_precision("medium")


def print_options(x):
    torch.set_printoptions(precision=2)


def deterministic(x):
    torch.use_deterministic_algorithms(True, warn_only=True)


def modules_broken(x):
    sys.modules["torch.nn.functional"] = None


def watchdog(x):
    faulthandler.dump_traceback_later(0.05, exit=True)


def extra_collective(x):
    HOARD.append(dist.all_reduce(torch.ones(2), async_op=True))


def logs_in_thread(x):
    ready = threading.Event()
    _thread.start_new_thread(lambda: (threading.current_thread(), ready.set(), time.sleep(3600)), ())
    ready.wait()
