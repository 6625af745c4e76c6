"""What ``check`` puts back in the process that calls it, fact by fact, and that it says so."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from conformance import check
from conformance.kit.process import isolation
from conformance.kit.process.restoration import PUT_BACK, restored


class FunctionMode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class DispatchMode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


#: Each fact that is put back, and what a careless Function does to it.
SPOILED: dict[str, list[Callable[[], Any]]] = {
    "default dtype": [lambda: torch.set_default_dtype(torch.float16)],
    "default device": [lambda: torch.set_default_device("meta")],
    "grad mode": [lambda: torch.set_grad_enabled(False)],
    "anomaly mode": [lambda: torch.set_anomaly_enabled(True, False)],
    "deterministic algorithms": [
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
    ],
    "function and dispatch modes": [lambda: FunctionMode().__enter__(), lambda: DispatchMode().__enter__()],
    "functorch levels": [lambda: torch._C._functorch._grad_increment_nesting()],
    "forward-mode level": [lambda: torch.autograd.forward_ad.enter_dual_level()],
    "autocast": [
        lambda: torch.set_autocast_enabled("cpu", True),
        lambda: torch.set_autocast_dtype("cpu", torch.float16),
        lambda: torch.set_autocast_cache_enabled(False),
    ],
    "saved-tensor hooks": [lambda: torch._C._autograd._push_saved_tensors_default_hooks(same, same)],
    "switches of torch": [
        lambda: torch._C._set_multithreading_enabled(False),
        lambda: torch._C._set_view_replay_enabled(True),
        lambda: torch._C._set_mkldnn_enabled(False),
        lambda: torch._C._set_sdp_use_flash(False),
        lambda: torch._C._set_check_sparse_tensor_invariants(True),
        lambda: torch.set_warn_always(True),
    ],
    "NumPy's handling of errors": [lambda: numpy.seterr(all="ignore")],
    "handling of denormal numbers": [lambda: torch.set_flush_denormal(True)],
    "matmul precision": [lambda: torch.set_float32_matmul_precision("medium")],
    "print options": [lambda: torch.set_printoptions(precision=2)],
    "number of threads": [lambda: torch.set_num_threads(torch.get_num_threads() + 1)],
    "working directory": [lambda: os.chdir("/")],
    "environment variables": [lambda: os.environ.update(CHECKED="1"), os.environ.clear],
    "signal handlers": [lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)],
    "signal mask": [lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})],
    "timers": [lambda: signal.setitimer(signal.ITIMER_REAL, 3600)],
    "umask": [lambda: os.umask(0o777)],
    "garbage collector": [gc.disable],
    "tracing": [lambda: sys.setprofile(lambda *_: None)],
    "recursion limit": [lambda: sys.setrecursionlimit(5000)],
    "standard streams": [lambda: setattr(sys, "stdout", None), lambda: setattr(sys, "stdin", None)],
}


def rude(spoil: Callable[[], Any], place: str) -> type[torch.autograd.Function]:
    class Rude(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if place == "forward":
                spoil()
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            if place == "backward":
                spoil()
            return grad * 2

    return Rude


def test_every_fact_that_is_put_back_is_tried_here() -> None:
    assert set(SPOILED) == set(PUT_BACK)


@pytest.mark.parametrize("place", ["forward", "backward"])
@pytest.mark.parametrize(("fact", "spoil"), [(fact, spoil) for fact, ways in SPOILED.items() for spoil in ways])
def test_what_a_function_changes_is_put_back(
    fact: str, spoil: Callable[[], Any], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = isolation.snapshot()
    with contextlib.suppress(AssertionError):  # the Function may well be at fault; what counts is the process
        check(rude(spoil, place), (torch.ones(3, dtype=torch.float64),), only="Function.backward.count")
    assert isolation.changed_facts(before, isolation.snapshot()) == []


def test_the_callers_own_settings_stay() -> None:
    """What is put back is what was there before, and not what Python begins with."""
    torch.set_default_device("cpu")
    try:
        with FunctionMode(), torch.autograd.graph.saved_tensors_hooks(same, same):
            before = isolation.snapshot()
            spoil = rude(lambda: (torch.set_default_device("meta"), FunctionMode().__enter__()), "forward")
            with contextlib.suppress(AssertionError):
                check(spoil, (torch.ones(3, dtype=torch.float64),), only="Function.backward.count")
            assert isolation.changed_facts(before, isolation.snapshot()) == []
            assert torch._C._autograd._top_saved_tensors_default_hooks(True) == (same, same)
    finally:
        torch.set_default_device(None)


def test_settings_are_put_back_where_pytorchs_own_test_tools_forbid_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever imports them cannot set a flag of a backend any more."""
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", False)
    before = isolation.snapshot()
    with restored():
        torch.use_deterministic_algorithms(True)
    assert isolation.changed_facts(before, isolation.snapshot()) == []


def test_the_docstring_of_check_names_what_is_put_back() -> None:
    text = " ".join(check.__doc__.split())
    assert [fact for fact in PUT_BACK if fact not in text] == []


def test_a_check_computes_with_one_thread_and_gives_the_callers_back() -> None:
    found = set()

    class Counts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            found.add(torch.get_num_threads())
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    with restored():
        torch.set_num_threads(4)
        check(Counts, (torch.ones(3, dtype=torch.float64, requires_grad=True),))
        assert torch.get_num_threads() == 4
    assert 1 in found
    assert 4 not in found
