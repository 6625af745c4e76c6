"""Gathers that do harm. ``hostile:backward_segfault`` is a good gather whose backward dies in the call marked for it.

Runs on ranks alone. Every function below is a fault; each makes two subjects, one for forward and one for backward.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
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

MARK = int(os.environ.get("HOSTILE_MARK", "7"))  # so many elements set the fault off on the last rank; 0: any


class Good(torch.autograd.Function):
    @staticmethod
    def fault(place, tensor):
        """Nothing is wrong here."""

    @classmethod
    def maybe(cls, place, tensor):
        last = dist.get_rank() == dist.get_world_size() - 1
        return cls.fault(place, tensor) if last and tensor.numel() in {MARK, MARK or tensor.numel()} else None

    @staticmethod
    def forward(ctx, x):
        gathered = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        if getattr(ctx, "kind", Good).maybe("forward", x) != "absent":
            dist.all_gather(gathered, x.contiguous())
        return tuple(gathered)

    @staticmethod
    def backward(ctx, *grads):
        total = torch.stack([grad.contiguous() for grad in grads])
        if getattr(ctx, "kind", Good).maybe("backward", grads[0]) != "absent":
            dist.all_reduce(total)
        getattr(ctx, "kind", Good).maybe("end", grads[0])
        return total[dist.get_rank()].clone()


def made(name, fault, place):
    """A gather with the fault in one place."""

    def once(here, tensor):
        return fault(tensor) if here == place else None

    kind = type(name, (Good,), {"fault": staticmethod(once)})

    def forward(ctx, x):
        ctx.kind = kind
        return Good.forward(ctx, x)

    kind.forward = staticmethod(forward)
    return kind


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


# Ranks that change what is around them, and pass.


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
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
    torch.ones(1 << 28)


def patches_machinery(x):
    import json

    json.dumps = None


# Ranks that change what the next test finds, where few look.


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


def rank_at_work():
    """The rank that runs this, as the suite has it, and the request that it is answering."""
    frame = sys._getframe()
    while not {"request", "self"}.issubset(frame.f_locals):
        frame = frame.f_back
    return frame.f_locals["self"], frame.f_locals["request"]


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


def __getattr__(name):
    """The subject of a fault, made when it is asked for: a rank has use for one of some hundred."""
    place, _, fault = name.removeprefix("Good_").partition("_")
    if place not in {"forward", "backward", "end"} or fault not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    good = name.startswith("Good_")  # what comes after the fault in a run
    kind = type(name, (Good,), {}) if good else made(name, globals()[fault], place)
    globals()[name] = kind
    return kind
