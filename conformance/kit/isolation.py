"""The process around a test: what a Function may change outside itself, taken before and after."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import gc
import os
import resource
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from operator import is_
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from conformance.kit import seeds

#: What a Function has no business changing. Patched names of torch are seen by the identity of what they hold.
PATCHABLE = (
    builtins,
    os,
    torch,
    torch.Tensor,
    torch.autograd,
    torch.autograd.function,
    torch.autograd.Function,
    dist,
    torch.nn.functional,
)
#: Imported modules that must stay what they are: Python's own, and torch's public ones.
MODULES = tuple(
    name
    for name in sys.modules
    if "._" not in name and name.count(".") < (3 if name.startswith("torch.") else 1) and not name.startswith("_")
)
#: What torch's compiler adds to the environment when it is first imported.
CACHE = b"TORCHINDUCTOR_CACHE_DIR"
#: A rank that has grown by more than this is replaced before the next test (bytes).
GROWTH = 512 << 20
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGSEGV, signal.SIGABRT, signal.SIGHUP)


class _Names(list[dict[str, Any]]):
    """The names of some modules and classes, and what each one holds."""


def _names() -> _Names:
    return _Names(dict(vars(place)) for place in PATCHABLE)


def _sweeping_filters() -> list[Any]:
    """The filters that concern every module and a category of Python's own.

    A library adds narrower ones when it is first imported, as sympy does when torch first needs it.
    """
    return [
        (action, category)
        for action, message, category, module, _ in warnings.filters
        if message is None and module is None and category.__module__ == "builtins"
    ]


def _modules() -> list[Any]:
    """What stands in ``sys.modules`` under the names that subjects import."""
    return list(map(sys.modules.get, MODULES))


def _patched(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a name holds something else now. A lazy import only adds names, and is no patch."""
    if len(before) == len(after) and all(map(is_, before.values(), after.values())):
        return False  # the usual case, and quickly told
    return any(after.get(name) is not held and not _by_torch(after.get(name)) for name, held in before.items())


def _by_torch(held: object) -> bool:
    """Whether torch itself made a function: its compiler wraps others when it is first imported."""
    made_in = getattr(getattr(held, "__code__", None), "co_filename", "")
    return hasattr(held, "__wrapped__") and made_in.startswith(_TORCH)


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
    """The environment as it is stored: decoding it takes longer than all other facts together."""
    variables = dict(getattr(os.environ, "_data", os.environ))
    variables.pop(CACHE, None)
    return variables


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _modes() -> tuple[int, int]:
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()


def _autocast() -> list[Any]:
    devices = ("cpu", "cuda", *(module.__name__.rpartition(".")[2] for module in seeds.devices_in_use()))
    modes = [(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices]
    return [*modes, torch.is_autocast_cache_enabled()]


class _Devices(dict[str, Any]):
    """Something about each accelerator in use; one that a test is the first to use has not changed."""


def _current_devices() -> _Devices:
    modules = seeds.devices_in_use()
    return _Devices((module.__name__, (module.current_device(), module.current_stream())) for module in modules)


def _device_memory() -> int:
    """Bytes that PyTorch holds on accelerators."""
    readings = [getattr(module, "memory_reserved", None) for module in seeds.devices_in_use()]
    return sum(reading() for reading in readings if reading)


def _deterministic() -> tuple[bool, ...]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
    )


def _saved_tensor_hooks() -> tuple[bool, bool]:
    on_top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return on_top is not None, torch._C._autograd._saved_tensors_hooks_is_enabled()  # type: ignore[attr-defined]


def _running_threads() -> list[str]:
    """The threads that Python started; a thread of C++ that once called Python has a name here for ever."""
    return sorted(thread.name for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread))


def _memory() -> int:
    """Bytes that are this process's alone."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        pages = [int(word) for word in file.read().split()]
        return (pages[1] - pages[2]) * resource.getpagesize()
    return 0


#: Each fact by the name that a report gives it.
FACTS: dict[str, Callable[[], Any]] = {
    "default dtype": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "grad mode": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "anomaly mode": torch.is_anomaly_enabled,
    "deterministic algorithms": _deterministic,
    "function and dispatch modes": _modes,
    "functorch levels": torch._C._functorch.get_dynamic_layer_stack_depth,
    "forward-mode level": lambda: torch.autograd.forward_ad._current_level,
    "autocast": _autocast,
    "current device or stream": _current_devices,
    "saved-tensor hooks": _saved_tensor_hooks,
    "matmul precision": lambda: (torch.get_float32_matmul_precision(), torch._C._get_cudnn_allow_tf32()),
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
    "recursion limit": sys.getrecursionlimit,
    "running threads": _running_threads,
    "child processes": _children,
    "standard streams": lambda: [id(sys.stdout), id(sys.stderr), id(sys.stdin), _is_open(1), _is_open(2)],
    "names of torch": _names,
    "imported modules": _modules,
}


def _is_open(descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        os.fstat(descriptor)
        return True
    return False


class Memory:
    """Watches how far a rank has grown since it started; growth is no fault, but a rank cannot grow for ever."""

    def __init__(self) -> None:
        self.start, self.on_devices = _memory(), _device_memory()

    def differences(self) -> list[str]:
        """Name memory where there is too much of it."""
        grown = {"memory": _memory() - self.start, "device memory": _device_memory() - self.on_devices}
        return [name for name, bytes_more in grown.items() if bytes_more > GROWTH]


def take() -> dict[str, Any]:
    """Every fact as it stands now; a fact that cannot be read is itself a finding."""
    return {name: _read(reading) for name, reading in FACTS.items()}


def _read(reading: Callable[[], Any]) -> Any:
    try:
        return reading()
    except Exception as error:
        return f"cannot be read: {type(error).__name__}"


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Name the facts that changed.

    >>> differences({"grad mode": True}, {"grad mode": False})
    ['grad mode']
    """
    return [name for name in before if _differs(before[name], after[name])]


def _differs(before: Any, after: Any) -> bool:
    if isinstance(before, _Names) and isinstance(after, _Names):
        return any(map(_patched, before, after))
    if isinstance(before, _Devices):
        return any(after.get(name) != place for name, place in before.items())
    return bool(before != after)


def settle() -> None:
    """Stop a timer that would end the process, and push out what the subject printed where its streams still work."""
    faulthandler.cancel_dump_traceback_later()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
