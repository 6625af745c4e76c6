"""What PyTorch's own checks say of the planted bugs in the contract, and of the correct implementations.

Each check runs as its documentation asks, with the samples that the suite gets, in double precision, in a process of
its own and with a deadline. It notices a bug where it raises, crashes or never ends.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.kit.backward import has_backward
from conformance.kit.calls import SampleCall
from conformance.kit.deviations import NotApplicable, need
from conformance.kit.loading import resolve
from conformance.kit.sample_calls import every_sample, in_double
from conformance.kit.seeds import seed
from conformance.kit.subject import Subject
from conformance.kit.world import World
from conformance.prove.implementations import Implementation

#: How long one check of one implementation may take (seconds).
DEADLINE = 60.0
NOTICES, PASSES, NOT_APPLICABLE = "notices", "passes", "n/a"
Check = Callable[[Subject, SampleCall], object]


def gradcheck(subject: Subject, sample: SampleCall) -> object:
    """``gradcheck`` with its defaults."""
    return torch.autograd.gradcheck(*_call(sample))


def gradcheck_fast(subject: Subject, sample: SampleCall) -> object:
    """``gradcheck`` with ``fast_mode=True``."""
    return torch.autograd.gradcheck(*_call(sample), fast_mode=True)


def gradcheck_full(subject: Subject, sample: SampleCall) -> object:
    """``gradcheck`` with ``check_batched_grad=True``, and with forward mode where the class defines ``jvp``."""
    forward = subject.defines("jvp")
    options = {"check_forward_ad": forward, "check_batched_forward_grad": forward}
    return torch.autograd.gradcheck(*_call(sample), check_batched_grad=True, **options)


def gradgradcheck(subject: Subject, sample: SampleCall) -> object:
    """``gradgradcheck`` with its defaults."""
    return torch.autograd.gradgradcheck(*_call(sample))


def opcheck(subject: Subject, sample: SampleCall) -> object:
    """``opcheck`` of an operator whose implementation calls the Function."""
    library = torch.library.Library("peers", "FRAGMENT")
    library.define(f"call{_schema(sample)}")
    library.impl("call", lambda *args: subject.called(*args), "CompositeImplicitAutograd")
    args = [value.detach().requires_grad_(at in sample.active) if at in _tensors(sample) else value
            for at, value in enumerate(sample.values)]  # fmt: skip
    return torch.library.opcheck(torch.ops.peers.call.default, tuple(args))


CHECKS: dict[str, Check] = {
    "gradcheck": gradcheck,
    "gradcheck, fast mode": gradcheck_fast,
    "gradcheck, batched and forward mode": gradcheck_full,
    "gradgradcheck": gradgradcheck,
    "opcheck": opcheck,
}


@dataclass(frozen=True)
class Row:
    """What each check says of one implementation."""

    implementation: Implementation
    said: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"implementation": self.implementation.reference, "breaks": self.implementation.breaks, **self.said}


def rows(
    wanted: Sequence[Implementation], said: Callable[[Row], None], checks: Mapping[str, Check] = CHECKS
) -> list[Row]:
    """A row for each implementation: a bug in the contract that one process can show, or a correct one."""
    _import_what_checks_import()
    found = []
    for implementation in wanted:
        found.append(Row(implementation, {name: _said(implementation, check) for name, check in checks.items()}))
        said(found[-1])
    return found


def _import_what_checks_import() -> None:
    """Once and for all, so that no deadline counts it."""
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(torch.sin, (x,), check_batched_grad=True, check_forward_ad=True)
    subject = Subject(torch.sin, inputs=((x,),))
    for sample in every_sample(subject, World()):
        opcheck(subject, sample)


def _said(implementation: Implementation, check: Check) -> str:
    """One check of one implementation, in a process of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_check, args=(implementation, check, theirs))
    process.start()
    theirs.close()
    try:
        said: str = ours.recv() if ours.poll(DEADLINE) else NOTICES
    except EOFError:  # it crashed
        said = NOTICES
    process.kill()
    process.join()
    return said


def _check(implementation: Implementation, check: Check, answer: Connection) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, os.getcwd())
    subject = resolve(implementation.reference, implementation.spec, implementation.inputs)
    try:
        answer.send(_verdict(subject, check))
    except NotApplicable:
        answer.send(NOT_APPLICABLE)


def _verdict(subject: Subject, check: Check) -> str:
    need(subject.gradient_kind != "declared", "its gradient is no derivative on purpose")
    said = set()
    for given in every_sample(subject, World()):
        seed(0)
        try:
            check(subject, in_double(given))
        except NotApplicable:
            said.add(NOT_APPLICABLE)
        except BaseException:  # whatever it raises, a user would see
            said.add(NOTICES)
        else:
            said.add(PASSES)
    return next(word for word in (NOTICES, PASSES, NOT_APPLICABLE) if word in said)


def _tensors(sample: SampleCall) -> list[int]:
    return [at for at, value in enumerate(sample.values) if isinstance(value, torch.Tensor)]


def _call(sample: SampleCall) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """A function of the tensors that are differentiated, and these tensors."""
    need(sample.active and has_backward(sample.subject), "nothing can be differentiated")
    leaves = tuple(sample.values[at].detach().clone().requires_grad_() for at in sample.active)

    def call(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # A leaf that requires grad cannot be changed in place, and some Functions do that, rightly.
        values = {
            **dict(enumerate(sample.plain)),
            **{at: x.clone() for at, x in zip(sample.active, given, strict=True)},
        }
        seed(0)
        result = sample.subject.called(*pytree.tree_unflatten(list(values.values()), sample.structure))
        return tuple(leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))

    return call, leaves


def _schema(sample: SampleCall) -> str:
    """The operator's signature, from a sample and what it gives.

    Raises:
        NotApplicable: an operator takes or gives no such thing.
    """
    need(sample.top >= set(sample.active), "tensors inside containers")
    kinds = {bool: "bool", int: "int", float: "float", str: "str", type(None): "Tensor?"}
    words = []
    for at, value in enumerate(sample.values):
        kind = "Tensor" if isinstance(value, torch.Tensor) else kinds.get(type(value))
        need(kind, f"an operator takes no {type(value).__name__}")
        words.append(f"{kind} a{at}")
    result = sample.run().result
    results: Sequence[Any] = result if isinstance(result, tuple) else (result,)
    need(all(isinstance(value, torch.Tensor) for value in results), "a result that is no tensor")
    given = ", ".join("Tensor" for _ in results)
    return f"({', '.join(words)}) -> {given if len(results) == 1 else f'({given})'}"
