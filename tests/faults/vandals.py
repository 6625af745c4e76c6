"""Gathers that spoil what the suite itself stands on: Python, its libraries, the process, the files.

Every function below, and every one in processes.py, is a fault: see hostile.py.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import json
import os
import random
import struct
import sys
import threading
import time
import traceback
import tracemalloc
import unittest
import warnings

import processes
import torch
import torch.distributed as dist
from gathers import subjects

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
    from conformance.kit.process import isolation

    isolation.snapshot = dict
    os.environ["SPILLED"] = "1"


# Settings of PyTorch and Python.


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


__getattr__ = subjects(globals(), vars(processes))
