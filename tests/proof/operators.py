"""What opcheck, gradcheck and the specification of operators say of its planted bugs and of its correct operators."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from benchmarks.measure import machine
from conformance.core import clauses
from conformance.core.outcomes import BROKEN
from conformance.kit.calls import SampleCall
from conformance.kit.deviations import need
from conformance.kit.subject import Subject
from conformance.prove import proving
from conformance.prove.implementations import Implementation
from conformance.ranks.client import Forkserver
from tests.outside import operators, operators_to_prove
from tests.proof import peers
from tests.proof.peers import NOTICES, Row

FILE = Path(__file__).parents[2] / "docs" / "data" / "operators.md"
OURS = "this suite"


def opcheck(subject: Subject, sample: SampleCall) -> object:
    """``opcheck`` with its defaults, on tensors that require grad if it can be differentiated, as it asks for."""
    from operator_spec.spec import divided, overload_of  # on the path only while operators() is

    args, options = divided(subject.target, _arguments(sample, grads=_is_differentiable(subject, sample)))
    return torch.library.opcheck(overload_of(subject.target), args, options)


def gradcheck(subject: Subject, sample: SampleCall) -> object:
    """``gradcheck`` with its defaults, if it can be differentiated."""
    need(_is_differentiable(subject, sample), "it has no formula")
    return peers.gradcheck(subject, sample)


def _is_differentiable(subject: Subject, sample: SampleCall) -> bool:
    """Tell whether a formula is registered, right or wrong, or gradients come of the kernel's own operations."""
    from operator_spec.spec import call, has_formula, tensors_in

    if has_formula(subject.target):
        return True
    try:
        found = tensors_in(call(subject.target, _arguments(sample, grads=True)))
        results = [tensor for tensor in found if tensor.requires_grad]
        torch.autograd.backward(results, [torch.ones_like(tensor) for tensor in results])
    except RuntimeError:
        return False
    return bool(results)


def _arguments(sample: SampleCall, grads: bool) -> tuple[Any, ...]:
    values = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in sample.values]
    for at in sample.active if grads else ():
        values[at].requires_grad_()
    return tuple(pytree.tree_unflatten(values, sample.structure))


CHECKS: dict[str, peers.Check] = {"opcheck": opcheck, "gradcheck": gradcheck}


def main(only: str, write: bool) -> int:
    """Ask all of them, show the tables, and write them to the page's data."""
    text = page(lambda row: print(".", end="", flush=True), only)
    print(f"\n{text}")
    if write:
        FILE.write_text(text, encoding="utf-8")
    return 0


def page(said: Callable[[Row], None], only: str = "") -> str:
    """Return the tables of the page."""
    with tempfile.TemporaryDirectory() as site, operators(Path(site)) as home, Forkserver() as forkserver:
        proof, (planted, correct) = proving._Proof(home, forkserver), operators_to_prove()
        rows = peers.rows([one for one in (*planted, *correct) if only in one.reference], said, CHECKS)
        accused = _accused(proof, [row.implementation for row in rows if not row.implementation.breaks])
        for row in rows:
            one = row.implementation
            noticed = proof.killer(proving._subject(one), clause=one.breaks) if one.breaks else one.reference in accused
            row.said[OURS] = NOTICES if noticed else peers.PASSES
        about = {**machine(), "clauses_sha256": clauses.digest("Operator")}
    return "\n".join([*_tables(rows), "", _taken(about), ""])


def _accused(proof: proving._Proof, right: Sequence[Implementation]) -> set[str]:
    """The operators that break a clause of the specification; those of every Function are asked by ``prove``."""
    with proof.session([proving._subject(one) for one in right]) as session:
        own = [test for test in session.tests if proving.concerns(test) and test.is_of_its_spec]
        return {found.subject for found in session.run(own) if found.outcome in BROKEN}


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    names = [*CHECKS, OURS]
    bugs, right = ([row for row in rows if bool(row.implementation.breaks) is bad] for bad in (True, False))
    yield f"| clause | bugs | {' | '.join(names)} |"
    yield f"|---|---{'|---' * len(names)}|"
    for clause in sorted({row.implementation.breaks for row in bugs}):
        yield _line(f"`{clause}`", [row for row in bugs if row.implementation.breaks == clause], names)
    yield _line("**all bugs, noticed**", bugs, names)
    yield _line("**correct operators, accused**", right, names)


def _line(title: str, rows: Sequence[Row], names: Sequence[str]) -> str:
    counts = [sum(row.said[name] == NOTICES for row in rows) for name in names]
    return f"| {title} | {len(rows)} | {' | '.join(map(str, counts))} |"


def _taken(about: dict[str, str]) -> str:
    where = f"{about['processor']}, PyTorch {about['torch']}, Python {about['python']}"
    return f"Taken on {about['date']}: {where}, commit {about['commit']}, clauses {about['clauses_sha256'][:12]}."
