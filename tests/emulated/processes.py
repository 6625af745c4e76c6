"""Run a test in processes of its own: the device, once loaded, stays in a process, and some tests must crash."""

from __future__ import annotations

import contextlib
import datetime
import functools
import importlib
import multiprocessing
import os
import signal
import tempfile
import traceback
import warnings
from pathlib import Path

import pytest

FORKED = multiprocessing.get_context("forkserver")  # which imports torch once, and forks from there
# What the first comparison imports takes half as long as torch.
_COMPARING = ("torch.fx.experimental.symbolic_shapes", "torch.distributed.tensor")
FORKED.set_forkserver_preload(["torch", "torch.distributed", "pytest", *_COMPARING])
_SECONDS = 120


def on_device(test):
    """The body of this test runs in a process that has the emulated device."""

    @functools.wraps(test)
    def run(**parameters):
        _passes([_start(_alone, test, parameters)])

    return run


def on_ranks(*sizes):
    """The body of this test, ``test(rank, size)``, runs on so many ranks, which have a process group of the device."""

    def decorate(test):
        def run(size, tmp_path):
            _passes([_start(_ranked, test, {"rank": rank, "size": size}, str(tmp_path)) for rank in range(size)])

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        run.__wrapped_test__ = test
        return pytest.mark.parametrize("size", sizes)(run)

    return decorate


def ending(body, *arguments, **environment):
    """How a process ends in which ``body(*arguments)`` is called: its exit status, and what it wrote to stderr."""
    with tempfile.NamedTemporaryFile("r") as errors:
        child = FORKED.Process(target=_with_errors_in, args=(errors.name, environment, body, arguments))
        child.start()
        child.join(_SECONDS)
        return child.exitcode, errors.read()


def _start(target, test, parameters, *rest):
    from conformance.emulated import build

    receive, send = FORKED.Pipe(duplex=False)
    child = FORKED.Process(
        target=target, args=(send, str(build()), test.__module__, test.__qualname__, parameters, *rest)
    )
    child.start()
    send.close()
    return child, receive


def _passes(children):
    deadline = datetime.datetime.now() + datetime.timedelta(seconds=_SECONDS)
    failures = []
    for rank, (child, receive) in enumerate(children):
        child.join(max(0, (deadline - datetime.datetime.now()).total_seconds()))
        with contextlib.suppress(EOFError):
            while receive.poll():
                failures.append(f"process {rank}: {receive.recv()}")
        if child.exitcode is None:
            child.kill()
            failures.append(f"process {rank} has not ended in {_SECONDS} s")
        elif child.exitcode < 0:
            failures.append(f"process {rank} was ended by {signal.Signals(-child.exitcode).name}")
    assert not failures, "\n".join(failures)


def _alone(send, library, module, name, parameters):
    _report(send, lambda: _body(module, name, library)(**parameters))


def _ranked(send, library, module, name, parameters, folder):
    import torch
    import torch.distributed as dist

    # A rank that needs nobody could end before others are connected with it: Gloo would refuse them the group.
    os.environ["TORCH_DIST_INIT_BARRIER"] = "1"

    def run():
        body = _body(module, name, library)
        rank, size = parameters["rank"], parameters["size"]
        torch.accelerator.set_device_index(rank % torch.accelerator.device_count())
        store = dist.FileStore(str(Path(folder, "store")), size)
        timeout = datetime.timedelta(seconds=_SECONDS // 2)
        dist.init_process_group("emulated_ccl", store=store, rank=rank, world_size=size, timeout=timeout)
        body(**parameters)
        dist.destroy_process_group()

    _report(send, run)


def _body(module, name, library):
    import torch

    from conformance.emulated import load

    load(Path(library))
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    test = getattr(importlib.import_module(module), name)
    for mark in ("__wrapped__", "__wrapped_test__"):
        test = getattr(test, mark, test)
    return test


def _report(send, run):
    try:
        run()
    except BaseException:
        send.send(traceback.format_exc())
        raise SystemExit(1) from None


def _with_errors_in(path, environment, body, arguments):
    with open(path, "w") as errors:
        os.dup2(errors.fileno(), 2)
    os.environ.update(environment)
    body(*arguments)
