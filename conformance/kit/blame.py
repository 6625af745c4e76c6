"""Decide whom an exception blames: the subject, ``call=`` around it, or a run without the memory or device it needs."""

from __future__ import annotations

import inspect
import os
import re
import traceback
from collections.abc import Iterator
from functools import lru_cache
from traceback import FrameSummary
from types import FunctionType
from typing import Any

import torch

from conformance.core.accidents import is_of_the_suite
from conformance.core.joining import OUTSIDE
from conformance.kit.answers import ANSWERED
from conformance.kit.deviations import Deviation, NotApplicable, Skipped, Unfit
from conformance.kit.frames import foreign, last_own
from conformance.kit.loading import FUNCTION_METHODS
from conformance.kit.subject import Subject
from conformance.kit.world import World

#: How a line calls a Function; the compiler keeps lines, and not what they call.
_APPLIES = ".apply("
NO_MEMORY = "memory ran out: a test keeps several copies of its arguments; give smaller samples"
NO_DEVICE_MEMORY = "the memory of the device ran out, which other ranks use too: run the test again with a smaller -n"
#: What is said of it outside of PyTorch's own allocator: by CUDA, its libraries and NCCL.
_NO_DEVICE_MEMORY = re.compile(
    r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|Cuda failure (\d+ )?'out of memory'|Failed to CUDA \w+ "
)
#: Why nothing is judged of what needs a GPU, or another backend.
NO_DEVICE = "this run lacks what it needs ({}): run it with --device cuda where there is one, and --backend if need be"
#: How PyTorch, Triton and the backends of process groups say so; simulated ranks do as well.
_NO_DEVICE = re.compile(
    r"Torch not compiled with \w+ enabled|Found no NVIDIA driver|No CUDA GPUs are available|0 active drivers|"
    r"cannot be accessed from Triton|Could not run '\S+' with arguments from the 'CPU' backend|"
    r"doesn't have NCCL built in|Cannot use ReduceOp\.\w+ with Gloo|Backend \w+ does not (implement|support)|"
    r"simulated ranks reduce by"
)
#: How an author says so, in the message or in the line that raises it.
_NAMES_A_DEVICE = re.compile(r"is_cuda|(?<![a-z])(cuda|gpu|nvidia|triton|xpu|npu|hpu|mps)(?![a-z])", re.IGNORECASE)
#: How PyTorch says so, and what is told if the suite has called the operation, not the subject.
_NO_OPERATION = re.compile(r"not implemented for '\w+'")
NO_OPERATION = "PyTorch lacks an operation that the test needs in this dtype ({}): give samples of another one"
#: Where the suite calls the subject.
_CALLERS = (os.path.join("kit", "specs.py"), os.path.join("kit", "subject.py"))
#: PyTorch's message if an allocation fails, with its size (bytes).
_NO_MEMORY = re.compile(r"DefaultCPUAllocator: .*you tried to allocate (\d+) bytes")


def expect_own(subject: Subject | None, error: Exception, world: World) -> None:
    """Assert that an exception comes from the subject's own code, or that its origin is unknown.

    Raises:
        NotApplicable: ``call=`` itself raised, outside the subject.
        Skipped: the same, and no call has returned so far; or memory ran out after calls had returned, or a device's;
            or this run, on the CPU, lacks the device or backend that the subject needs; or PyTorch lacks an operation.
    """
    # By their types: an exception may answer any question about itself with another one, even about its class.
    raised = error.__cause__ if issubclass(type(error), Deviation) else error
    if raised is not None and _is_of_device_memory(raised):
        raise Skipped(NO_DEVICE_MEMORY) from error
    if subject is None or raised is None or issubclass(type(raised), NotApplicable | Skipped | Unfit):
        return
    try:
        lacks_memory = _is_of_memory(raised)
        last = traceback.extract_tb(raised.__traceback__)[-1]
        line = last.line or ""
        is_of_suite = is_of_the_suite(last.filename) and not last.filename.endswith(_CALLERS)
        lacks_operation = is_of_suite and _NO_OPERATION.search(str(raised))
        is_named = subject.label not in ANSWERED and _NAMES_A_DEVICE.search(f"{raised} {line}")
        lacks_device = world.device == "cpu" and (is_named or _NO_DEVICE.search(str(raised)))
        # Of one of the compiler, those of the code that it read.
        stack = getattr(raised, "real_stack", None) or traceback.extract_tb(raised.__traceback__)
        frames = list(stack) if subject.call else []
    except (Exception, SystemExit):
        return
    if lacks_memory and subject.label in ANSWERED:
        raise Skipped(NO_MEMORY) from error
    words = next(iter(str(raised).splitlines()), "")
    if lacks_operation:
        raise Skipped(NO_OPERATION.format(words)) from error
    if lacks_device:
        raise Skipped(NO_DEVICE.format(f"{type(raised).__name__}: {words}" if words else line)) from error
    own = [frame for frame in frames if not foreign(frame.filename)]
    if not own or any(_is_in(frame, subject.target) for frame in own) or _is_applied(raised, frames, subject.target):
        return
    is_known = isinstance(subject.call, FunctionType) and not isinstance(subject.target, type)
    if is_known and not any(_is_in(frame, subject.call) for frame in own):
        return  # backward of what a callable made has no frame of its own
    told = f"{OUTSIDE} {_name(subject)}: {type(raised).__name__}: {words} (at {last_own(own)})"
    raise (NotApplicable if subject.label in ANSWERED else Skipped)(told) from error


def _is_of_memory(error: BaseException) -> bool:
    """Tell whether an allocation failed, unless it was larger than this machine's whole memory."""
    if issubclass(type(error), MemoryError | torch.OutOfMemoryError):
        return True
    found = _NO_MEMORY.search(str(error)) if issubclass(type(error), RuntimeError) else None
    return found is not None and int(found[1]) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _is_of_device_memory(error: BaseException) -> bool:
    """Tell whether an allocation on a device failed, be it the suite's own or the engine's: nobody is at fault."""
    try:
        return issubclass(type(error), RuntimeError) and bool(_NO_DEVICE_MEMORY.search(str(error)))
    except (Exception, SystemExit):
        return False


def _is_applied(error: BaseException, frames: list[FrameSummary], target: Any) -> bool:
    """Whether PyTorch was in the middle of calling the subject itself, or may have been."""
    if getattr(error, "real_stack", None):
        return _APPLIES in (frames[-1].line or "")
    if not _sources(target):  # an operation of PyTorch's own has no frame
        return foreign(frames[-1].filename)
    classes = [frame.f_locals.get("cls") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(isinstance(one, type) and isinstance(target, type) and issubclass(one, target) for one in classes)


def _is_in(frame: FrameSummary, target: Any) -> bool:
    """Whether a frame is a line of the subject's class, of one it derives from, or of the function that it is."""
    line = frame.lineno or 0
    return any(frame.filename == file and first <= line < end for file, first, end in _sources(target))


@lru_cache(maxsize=64)
def _sources(target: Any) -> tuple[tuple[str, int, int], ...]:
    return tuple(_read(target))


def _read(target: Any) -> Iterator[tuple[str, int, int]]:
    """The lines of a function, or of a class and its methods: file, first, and end.

    A method may be a function that stands elsewhere, and a class that was made by ``exec`` has no source.
    """
    bases = target.__mro__ if isinstance(target, type) else (inspect.unwrap(target),)
    for one in bases:
        if isinstance(one, type | FunctionType) and one is not torch.autograd.Function:
            yield from _lines_of_methods(one)
            try:
                lines, first = inspect.getsourcelines(one)
                yield inspect.getsourcefile(one) or "", first, first + len(lines)
            except (OSError, TypeError):  # it has none
                continue


def _lines_of_methods(owner: type | FunctionType) -> Iterator[tuple[str, int, int]]:
    """The lines of what PyTorch calls of a class, as compiled code has them; of a function, its own."""
    own = [vars(owner).get(name) for name in FUNCTION_METHODS] if isinstance(owner, type) else [owner]
    functions = [one.__func__ if isinstance(one, staticmethod | classmethod) else one for one in own]
    for function in (inspect.unwrap(one) for one in functions if isinstance(one, FunctionType)):
        if isinstance(function, FunctionType):
            lines = [line for _, _, line in function.__code__.co_lines() if line]
            yield function.__code__.co_filename, min(lines), max(lines) + 1


def _name(subject: Subject) -> str:
    return getattr(subject.target, "__name__", type(subject.target).__name__)
