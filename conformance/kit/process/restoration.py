"""Restore what a test or its subject changed in a process that goes on, and change it on purpose.

Under unusual settings it shows if a Function resets one of them to its usual value.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _python_dispatch

from conformance.kit.process.isolation import FACTS, SIGNALS, SWITCHES, TIMERS

Hooks = tuple[Callable[..., Any], Callable[..., Any]] | None


def _default_device() -> torch.device | None:
    """Return the default device if one was set, otherwise None."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context.device if context else None


def use_deterministic_algorithms(mode: bool, warn_only: bool = False) -> None:
    """Do what torch's own function does, without importing the whole compiler."""
    torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)
    compiler = sys.modules.get("torch._inductor.config")
    if compiler is not None:
        compiler.deterministic = mode  # type: ignore[attr-defined]


def _set_deterministic(flags: tuple[bool, ...]) -> None:
    use_deterministic_algorithms(flags[0], warn_only=flags[1])
    torch.utils.deterministic.fill_uninitialized_memory = flags[2]  # type: ignore[attr-defined]
    # Not as attributes of torch.backends.cudnn: PyTorch's own test tools forbid these to be set.
    torch._C._set_cudnn_deterministic(flags[3])
    torch._C._set_cudnn_benchmark(flags[4])


def _pop_modes(depths: tuple[int, int]) -> None:
    while torch._C._len_torch_function_stack() > depths[0]:
        torch._C._pop_torch_function_stack()
    while torch._C._len_torch_dispatch_stack() > depths[1]:
        _python_dispatch._pop_mode()


def _exit_dual_levels(level: int) -> None:
    while forward_ad._current_level > level:
        forward_ad.exit_dual_level()


def _set_autocast(state: tuple[Any, ...]) -> None:
    cached, *modes = state
    torch.set_autocast_cache_enabled(cached)
    for name, enabled, dtype in modes:
        torch.set_autocast_enabled(name, enabled)
        torch.set_autocast_dtype(name, dtype)


def _saved_tensor_hooks() -> tuple[Hooks, str | None]:
    hooks = torch._C._autograd
    return hooks._top_saved_tensors_default_hooks(True), hooks._saved_tensors_hooks_get_disabled_error_message()


def _pop_saved_tensor_hooks(state: tuple[Hooks, str | None]) -> None:
    hooks, (wanted, disabled) = torch._C._autograd, state
    hooks._saved_tensors_hooks_enable()
    while hooks._top_saved_tensors_default_hooks(True) not in [None, wanted]:
        hooks._pop_saved_tensors_default_hooks()
    if disabled is not None:
        hooks._saved_tensors_hooks_disable(disabled)


def _set_switches(states: tuple[bool, ...]) -> None:
    for (_, setting), state in zip(SWITCHES, states, strict=True):
        setting(state)


def _set_number_errors(kinds: dict[str, Any]) -> None:
    if kinds:
        sys.modules["numpy"].seterr(**kinds)


def _set_environment(variables: dict[Any, Any]) -> None:
    decoded = {os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()}
    os.environ.clear()
    os.environ.update(decoded)


def _set_handlers(handlers: list[Any]) -> None:
    for number, handler in zip(SIGNALS, handlers, strict=True):
        if handler is not None:  # one that was not set from Python cannot be
            signal.signal(number, handler)


def _stop_timers(running: list[bool]) -> None:
    for which, was_running in zip(TIMERS, running, strict=True):
        if not was_running:
            signal.setitimer(which, 0)


def _set_tracing(functions: tuple[Any, Any]) -> None:
    sys.settrace(functions[0])
    sys.setprofile(functions[1])


def _set_streams(streams: tuple[Any, ...]) -> None:
    sys.stdin, sys.stdout, sys.stderr = streams


#: Each fact that is put back: how to read it, and how to set it. Tracing is first, so that nothing here is traced;
#: a default device is a function mode itself, so that it comes before the modes.
PUT_BACK: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "tracing": (lambda: (sys.gettrace(), sys.getprofile()), _set_tracing),
    "recursion limit": (FACTS["recursion limit"], sys.setrecursionlimit),
    "default device": (_default_device, torch.set_default_device),
    "function and dispatch modes": (FACTS["function and dispatch modes"], _pop_modes),
    "functorch levels": (FACTS["functorch levels"], torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth),
    "forward-mode level": (FACTS["forward-mode level"], _exit_dual_levels),
    "saved-tensor hooks": (_saved_tensor_hooks, _pop_saved_tensor_hooks),
    "default dtype": (FACTS["default dtype"], torch.set_default_dtype),
    "grad mode": (FACTS["grad mode"], torch.set_grad_enabled),
    "anomaly mode": (
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda mode: torch.set_anomaly_enabled(*mode),
    ),
    "deterministic algorithms": (FACTS["deterministic algorithms"], _set_deterministic),
    "autocast": (FACTS["autocast"], _set_autocast),
    "switches of torch": (FACTS["switches of torch"], _set_switches),
    "NumPy's handling of errors": (FACTS["NumPy's handling of errors"], _set_number_errors),
    "handling of denormal numbers": (FACTS["handling of denormal numbers"], torch.set_flush_denormal),
    "matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "print options": (FACTS["print options"], vars(torch._tensor_str.PRINT_OPTS).update),
    "number of threads": (FACTS["number of threads"], torch.set_num_threads),
    "working directory": (FACTS["working directory"], os.chdir),
    "environment variables": (FACTS["environment variables"], _set_environment),
    "signal handlers": (FACTS["signal handlers"], _set_handlers),
    "signal mask": (FACTS["signal mask"], lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask)),
    "timers": (FACTS["timers"], _stop_timers),
    "umask": (FACTS["umask"], os.umask),
    "garbage collector": (FACTS["garbage collector"], lambda enabled: gc.enable() if enabled else gc.disable()),
    "standard streams": (lambda: (sys.stdin, sys.stdout, sys.stderr), _set_streams),
}


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Restore, at the end of the block, every fact that has changed."""
    before = {name: _read(name) for name in PUT_BACK}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is not _UNKNOWN and _read(name) != value:
                # A folder may be gone, and signals are the main thread's alone.
                with contextlib.suppress(OSError, ValueError):
                    PUT_BACK[name][1](value)


_UNKNOWN = object()


def _read(name: str) -> Any:
    try:
        return PUT_BACK[name][0]()
    except OSError:  # the working directory is gone
        return _UNKNOWN


@contextlib.contextmanager
def unusual_settings() -> Iterator[None]:
    """Run with unusual settings: another default dtype, several threads, anomaly mode, deterministic.

    >>> with unusual_settings():
    ...     torch.is_anomaly_enabled(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads() == 1
    (True, True, False)
    >>> torch.is_anomaly_enabled()
    False
    """
    with restored(), warnings.catch_warnings():
        # On top of the filters, so that one that sweeps all warnings away is not the one that is there already.
        warnings.simplefilter("ignore", BytesWarning)
        torch.set_default_dtype(torch.float32 if torch.get_default_dtype() == torch.float64 else torch.float64)
        torch.set_num_threads(5 if torch.get_num_threads() == 3 else 3)  # one is what others set it to
        torch.set_anomaly_enabled(True, False)
        # Not for warnings alone: whoever saves and restores the one flag would lose the other.
        use_deterministic_algorithms(True)
        yield
