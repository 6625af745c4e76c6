"""Call a sample under torch.compile, and find where and why the compiler failed.

The backend traces forward and backward as the default one does, and runs what it traced with PyTorch's own operations:
so differences are not due to rounding.
"""

from __future__ import annotations

import importlib
import logging
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from unittest import mock

import torch
import torch._dynamo
import torch._dynamo.guards
import torch._dynamo.utils

from conformance.kit.deviations import need
from conformance.kit.frames import last_own
from conformance.kit.modes import NAMESPACES
from conformance.kit.subject import Subject

BACKEND = "aot_eager"
#: How the compiler begins to say that it does not support something by design.
UNSUPPORTED = "Dynamo does not support tracing `torch.autograd.Function`"
SWITCHED_OFF = "the compiler is switched off, as TORCH_COMPILE_DISABLE=1 and TORCHDYNAMO_DISABLE=1 do"
#: What the first call would import on every rank, while the deadline of a test runs; other releases have others.
AT_FIRST_CALL = (
    "sympy.tensor.tensor",
    "torch._dynamo.backends.debugging",
    "torch._inductor.pattern_matcher",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
)
for _name in AT_FIRST_CALL:
    with suppress(ImportError):
        importlib.import_module(_name)


@contextmanager
def compiling() -> Iterator[None]:
    """Use a compiler without memory of earlier calls, which prints nothing.

    Raises:
        NotApplicable: it is switched off, so that compiled calls would be those of eager mode.
    """
    log = logging.getLogger("torch")
    level = log.level
    torch.compiler.reset()
    log.setLevel(logging.CRITICAL)
    try:
        with (
            # For its log, which takes longer than to compile a small function, it would empty the processor's caches to
            # time every guard, and write down all of its configuration.
            mock.patch("torch._dynamo.guards.profile_guard_manager", return_value=0.0, create=True),
            mock.patch("torch._dynamo.utils._scrubbed_inductor_config_for_logging", return_value=None, create=True),
            _traced_collectives(),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # the compiler looks at things that warn, whatever the user's filters
            need(torch.compile(_is_compiled, backend=BACKEND)(), SWITCHED_OFF)
            yield
    finally:
        log.setLevel(level)
        torch.compiler.reset()


def _is_compiled() -> bool:
    return torch.compiler.is_compiling()


@contextmanager
def _traced_collectives() -> Iterator[None]:
    """Trace collectives without starting them.

    PyTorch calls an operator for real where it knows the values of all its tensors, such as a length that ranks
    exchange: a rank that traces more often than another would send more often, and what waits for Gloo then may hold
    the interpreter lock that Gloo needs. Operators that draw random numbers are left alone.
    """
    with ExitStack() as undo:
        for operator in _collectives():
            tags = [*operator.tags, torch.Tag.nondeterministic_seeded]
            undo.enter_context(mock.patch.object(operator, "_tags", tags))
        yield


def _collectives() -> list[torch._ops.OpOverload]:
    names = (name.partition("::") for name in torch._C._dispatch_get_all_op_names())
    found = [(namespace, *name.partition(".")) for namespace, _, name in names if namespace in NAMESPACES]
    return [getattr(getattr(getattr(torch.ops, space), name), kind or "default") for space, name, _, kind in found]


def compiled(subject: Subject, whole: bool = False) -> Subject:
    """Return the subject with compiled calls; ``whole`` ones raise where the compiler would fall back."""
    inside = torch.compile(subject.called, backend=BACKEND, fullgraph=whole)
    return replace(subject, call=lambda target, *args: inside(*args))


def explanation(error: Exception) -> str:
    """Return the compiler's own message."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")]
    return (told or [line for line in lines if line] or [type(error).__name__])[0]


def place(error: Exception) -> str:
    """Return the line of the subject where the compiler gave up: file, line and function; empty if it names none."""
    return last_own(getattr(error, "real_stack", None) or traceback.extract_tb(error.__traceback__))
