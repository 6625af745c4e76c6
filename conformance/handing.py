"""A subject that is at hand as an object: tested in this process, or handed to rank processes."""

from __future__ import annotations

import base64
import importlib
import importlib.util
import random
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance import footprint
from conformance.joining import joined
from conformance.outcome import Deviation, NotApplicable, RankOutcome, Skipped, TestOutcome, clipped
from conformance.plan import Item
from conformance.rank import explain, text_of
from conformance.subject import Subject
from conformance.world import World


def in_process(items: Sequence[Item], subject: Subject) -> list[TestOutcome]:
    """Run items on the one rank that this process is, and leave the process as it was."""
    world = World(device=_device(subject))
    with _as_a_rank():
        return [_outcome(item, subject, world) for item in items]


def _outcome(item: Item, subject: Subject, world: World) -> TestOutcome:
    start = time.perf_counter()
    outcome, message, likely = "pass", "", ""
    try:
        with footprint.restored(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the suite provokes warnings; the caller's filters are for the caller
            torch.default_generator.manual_seed(0)
            random.seed(0)
            body = getattr(importlib.import_module(item.test.module), item.test.function)
            offered = {"subject": subject, "world": world, **dict(item.case)}
            body(**{name: offered[name] for name in item.test.arguments})
    except NotApplicable as error:
        outcome, message = "not-applicable", text_of(error)
    except Skipped as error:
        outcome, message = "skip", text_of(error)
    except Deviation as error:
        outcome, message, likely = "fail", text_of(error), error.likely
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a Function that calls sys.exit is at fault, and does not end the caller
        outcome, message = "error", explain(error)
    return joined(item, [RankOutcome(0, outcome, clipped(message), likely)], time.perf_counter() - start)


@contextmanager
def _as_a_rank() -> Iterator[None]:
    """The state that tests count on, whatever the caller has set."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        yield
    if cuda:
        torch.cuda.set_rng_state_all(cuda)


def _device(subject: Subject) -> str:
    """Where the samples are: on one device all of them, or else on the CPU."""
    tensors = [leaf for sample in subject.samples(World()) for leaf in pytree.tree_leaves(sample.args)]
    devices = {str(tensor.device) for tensor in tensors if isinstance(tensor, torch.Tensor)}
    return devices.pop() if len(devices) == 1 else "cpu"


def payload(subject: Subject) -> str:
    """The subject as text that a rank can make it from again.

    What stands at the top of a module goes by its name; all else, and what is in a module that a rank would not find
    by name, goes whole.

    Raises:
        ValueError: it cannot be handed over.
    """
    import cloudpickle

    whole = [module for module in _modules(subject) if not _found_by_name(module)]
    for module in whole:
        cloudpickle.register_pickle_by_value(module)
    try:
        return base64.b64encode(cloudpickle.dumps(subject)).decode()
    except Exception as error:
        raise ValueError(
            f"{subject.label} cannot be handed to rank processes: {type(error).__name__}: {error}; "
            "define it at the top of a module"
        ) from error
    finally:
        for module in whole:
            cloudpickle.unregister_pickle_by_value(module)


def _modules(subject: Subject) -> list[ModuleType]:
    """The modules that a subject's parts are from."""
    parts: list[Any] = [subject.target, subject.call, subject.formula, subject.inputs]
    parts += [helper for _, helper in subject.helpers]
    names = {str(getattr(part, "__module__", "")) for part in parts if part is not None}
    return [sys.modules[name] for name in sorted(names) if name in sys.modules and name != "__main__"]


def _found_by_name(module: ModuleType) -> bool:
    """Whether another process with the same path would import the same file under this name."""
    loaded = sys.modules.pop(module.__name__)
    try:
        spec = importlib.util.find_spec(module.__name__)
    except (ImportError, ValueError, AttributeError):
        return False
    finally:
        sys.modules[module.__name__] = loaded
    return spec is not None and spec.origin == getattr(getattr(module, "__spec__", None), "origin", None)
