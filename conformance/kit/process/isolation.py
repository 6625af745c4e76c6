"""Compare the process before and after a test: what a Function must not change outside itself."""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import gc
import locale
import os
import resource
import signal
import sys
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from conformance.kit import seeds
from conformance.kit.process.patches import LIBRARY, PROTECTED, SUITE, Names, held_modules

#: What torch's compiler adds to the environment when it is first imported.
CACHE = b"TORCHINDUCTOR_CACHE_DIR"
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LIMITS = tuple(value for name, value in sorted(vars(resource).items()) if name.startswith("RLIMIT_"))
SIGNALS = (
    signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGSEGV, signal.SIGABRT, signal.SIGHUP,
    signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip


def _sweeping_filters() -> list[Any]:
    """Return the warning filters that apply to every module and to one of Python's own categories.

    A library adds narrower ones when it is first imported, as sympy does when torch first needs it.
    """
    return [
        (action, category)
        for action, message, category, module, _ in warnings.filters
        if message is None and module is None and category.__module__ == "builtins"
    ]


def _children() -> list[str]:
    found: list[bytes] = []
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # the thread has ended
                listing = os.open(f"/proc/self/task/{task}/children", os.O_RDONLY)
                found += os.read(listing, 4096).split()
                os.close(listing)
    return sorted(map(bytes.decode, found))


def _environment() -> dict[Any, Any]:
    """Return the environment undecoded: decoding it takes longer than reading all other facts together."""
    variables = dict(getattr(os.environ, "_data", os.environ))
    variables.pop(CACHE, None)
    return variables


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _autocast() -> tuple[Any, ...]:
    devices = sorted({"cpu", "cuda", *seeds.devices_in_use()})
    modes = [(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices]
    return torch.is_autocast_cache_enabled(), *modes


class _AtLeast(list[Any]):
    """Entries to which a library may add its own when it is first imported."""


class _Path(list[str]):
    """The import path. A library may add a folder inside one that was there before."""

    def missing(self, after: list[str]) -> bool:
        """Whether a folder was removed, or one was added that is not inside any of these."""
        gone = any(folder not in after for folder in self)
        added = set(after).difference(self)
        return gone or any(not folder.startswith(tuple(filter(None, self))) for folder in added)


class _InUse(dict[str, Any]):
    """Per-device state; a device that this test is the first to use has not changed."""


def _current_devices() -> _InUse:
    modules = seeds.devices_in_use().values()
    return _InUse((module.__name__, (module.current_device(), module.current_stream())) for module in modules)


def _deterministic() -> tuple[bool, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
    )


#: Switches of torch that are on or off: how to read each, and how to set it.
SWITCHES: tuple[tuple[Callable[[], bool], Callable[[bool], object]], ...] = (
    (torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled),
    (torch._C._is_view_replay_enabled, torch._C._set_view_replay_enabled),
    (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
    (torch._C._get_flash_sdp_enabled, torch._C._set_sdp_use_flash),
    (torch._C._get_mem_efficient_sdp_enabled, torch._C._set_sdp_use_mem_efficient),
    (torch._C._get_math_sdp_enabled, torch._C._set_sdp_use_math),
    (torch._C._get_cudnn_sdp_enabled, torch._C._set_sdp_use_cudnn),
    (torch._C._check_sparse_tensor_invariants, torch._C._set_check_sparse_tensor_invariants),
    (torch.is_warn_always_enabled, torch.set_warn_always),
)


def _number_errors() -> _InUse:
    """Read what NumPy does on overflow, division by zero and the like, which code often silences."""
    numpy = sys.modules.get("numpy")
    return _InUse(numpy.geterr() if numpy else {})


def _saved_tensor_hooks() -> tuple[bool, bool]:
    on_top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return on_top is not None, torch._C._autograd._saved_tensors_hooks_is_enabled()  # type: ignore[attr-defined]


def _running_threads() -> tuple[int, list[str]]:
    """Count the threads that Python started, by name; a C++ thread that once called Python keeps its name."""
    every = threading.enumerate()
    return _thread._count(), sorted(thread.name for thread in every if not isinstance(thread, threading._DummyThread))


def _namespaces() -> list[str]:
    """Read this process's namespaces on Linux: network, mounts, host name."""
    found = []
    for kind in ("net", "mnt", "uts", "ipc"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/thread-self/ns/{kind}"))
    return found


def _interpreter() -> list[Any]:
    """Read the interpreter's settings that no import changes."""
    hooks = (sys.excepthook, sys.unraisablehook, threading.excepthook, threading.gettrace(), threading.getprofile())
    collector = (gc.get_threshold(), len(gc.callbacks), gc.get_debug())
    return [
        *map(id, hooks),
        *collector,
        sys.getswitchinterval(),
        tracemalloc.is_tracing(),
        faulthandler.is_enabled(),
        locale.setlocale(locale.LC_ALL),
    ]


def _scheduling() -> tuple[int, set[int]]:
    """Read the process's priority, and the processors that it may run on if the system reports them."""
    processors: Callable[[int], set[int]] = getattr(os, "sched_getaffinity", lambda _: set())
    return os.getpriority(os.PRIO_PROCESS, 0), processors(0)


#: Each fact by the name that a report gives it.
FACTS: dict[str, Callable[[], Any]] = {
    "default dtype": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "grad mode": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "anomaly mode": torch.is_anomaly_enabled,
    "deterministic algorithms": _deterministic,
    "function and dispatch modes": lambda: (
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
    ),
    "functorch levels": lambda: torch._C._functorch.get_dynamic_layer_stack_depth(),
    "forward-mode level": lambda: torch.autograd.forward_ad._current_level,
    "autocast": _autocast,
    "current device or stream": _current_devices,
    "saved-tensor hooks": _saved_tensor_hooks,
    "switches of torch": lambda: tuple(reading() for reading, _ in SWITCHES),
    "matmul precision": lambda: (torch.get_float32_matmul_precision(), torch._C._get_cudnn_allow_tf32()),
    "print options": lambda: dict(vars(torch._tensor_str.PRINT_OPTS)),
    "warning filters": _sweeping_filters,
    "number of threads": torch.get_num_threads,
    "default process group": lambda: id(distributed_c10d._get_default_group()) if dist.is_initialized() else None,
    "working directory": os.getcwd,
    "environment variables": _environment,
    "signal handlers": lambda: [signal.getsignal(number) for number in SIGNALS],
    "signal mask": lambda: sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "timers": lambda: [signal.getitimer(which)[0] > 0 for which in TIMERS],
    "limits": lambda: [resource.getrlimit(which) for which in LIMITS],
    "umask": _umask,
    "garbage collector": gc.isenabled,
    "tracing": lambda: (id(sys.gettrace()), id(sys.getprofile())),
    "interpreter settings": _interpreter,
    "NumPy's handling of errors": _number_errors,
    "handling of denormal numbers": lambda: sys.float_info.min / 2 == 0,
    "recursion limit": sys.getrecursionlimit,
    "running threads": _running_threads,
    "child processes": _children,
    "standard streams": lambda: [id(sys.stdout), id(sys.stderr), id(sys.stdin), _behind(1), _behind(2)],
    "names of torch": lambda: Names(PROTECTED),
    "names of Python's library": lambda: Names(LIBRARY),
    "names of the suite": lambda: Names(SUITE),
    "imported modules": held_modules,
    "import path": lambda: (_Path(sys.path), _AtLeast([*sys.meta_path, *sys.path_hooks]), sys.meta_path[:1]),
    "scheduling": _scheduling,
    "user and group": lambda: (os.geteuid(), os.getegid()),
    "namespaces": _namespaces,
}


def _behind(descriptor: int) -> tuple[int, int, bool] | None:
    """Return the file of a descriptor, and whether it is blocking; None if it is closed."""
    with contextlib.suppress(OSError):
        status = os.fstat(descriptor)
        return status.st_dev, status.st_ino, os.get_blocking(descriptor)
    return None


def snapshot() -> dict[str, Any]:
    """Read every fact; one that cannot be read is itself a finding."""
    return {name: _read(reading) for name, reading in FACTS.items()}


def _read(reading: Callable[[], Any]) -> Any:
    try:
        return reading()
    except Exception as error:
        return f"cannot be read: {type(error).__name__}"


def changed_facts(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Name the facts that changed.

    >>> changed_facts({"grad mode": True}, {"grad mode": False})
    ['grad mode']
    """
    return [name for name in before if _differs(before[name], after[name])]


def _differs(before: Any, after: Any) -> bool:
    if isinstance(before, Names) and isinstance(after, Names):
        return before.patched(after)
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        return any(map(_differs, before, after))
    if isinstance(before, _Path):
        return before.missing(after)
    if isinstance(before, _AtLeast):
        return any(entry not in after for entry in before)
    if isinstance(before, _InUse):
        return any(after.get(name) != place for name, place in before.items())
    return bool(before != after)


def stop_timer_and_flush() -> None:
    """Stop a timer that would end the process, and flush the subject's output if its streams still work."""
    faulthandler.cancel_dump_traceback_later()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
