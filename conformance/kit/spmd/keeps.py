"""Find which signatures a Function keeps, and why not the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from conformance.core.signatures import Signature, Type, candidates
from conformance.kit.spmd.observation import Observation, differs, observe
from conformance.kit.spmd.owed import DOUBLE, GroupCall
from conformance.kit.spmd.reasons import problem
from conformance.kit.typed_values import Ranks


@dataclass(frozen=True)
class SignatureJudgement:
    """Whether one signature is kept; if not, ``why`` describes the error in one sentence."""

    signature: Signature
    why: str = ""

    @property
    def kept(self) -> bool:
        """Whether it is kept."""
        return not self.why

    def __str__(self) -> str:
        return str(self.signature) if self.kept else f"not {self.signature}: {self.why}"


def find(
    ranks: Ranks,
    run: GroupCall,
    samples: Sequence[torch.Tensor],
    results: int,
    signatures: Iterable[Signature] | None = None,
    precision: float = DOUBLE,
) -> list[SignatureJudgement]:
    """Observe the ranks as often as the signatures need, and judge each signature. All ranks get the same result.

    A group of one rank keeps every signature whose gradient is right: the types differ from two ranks on. Of samples,
    in double precision, those of the first rank are taken on every rank. All signatures are judged if none are given.
    ``precision`` is the machine epsilon that the Function works with.
    """
    asked = tuple(candidates(len(samples), results) if signatures is None else signatures)
    looks: dict[tuple[bool, ...], list[Signature]] = {}
    for signature in sorted(asked, key=differs):
        looks.setdefault(differs(signature), []).append(signature)
    agreed = ranks.agreed(samples)
    seen = {look: observe(ranks, run, agreed, alike, precision) for look, alike in looks.items()}
    found = [judge_signature(signature, seen) for signature in asked]
    return found if signatures is not None else [_if_summed(one, seen[differs(one.signature)]) for one in found]


def judge_signature(signature: Signature, seen: Mapping[tuple[bool, ...], Observation]) -> SignatureJudgement:
    """Judge one signature by the observation for inputs of its types."""
    look = seen[differs(signature)]
    for result, kind in enumerate(signature.results):
        pair = look.differing(result)
        if not kind.differs and pair:
            which = "the result" if len(signature.results) == 1 else f"result {result}"
            return SignatureJudgement(signature, f"{which} differs between ranks {pair[0]} and {pair[1]}")
    for result in look.differentiable:
        for argument in range(len(signature.arguments)):
            why = _why(signature, look, argument, result)
            if why:
                return SignatureJudgement(signature, why)
    return SignatureJudgement(signature)


def _if_summed(finding: SignatureJudgement, look: Observation) -> SignatureJudgement:
    """Drop a signature that was not claimed and cannot hold: results of different shapes have no sum."""
    for result, kind in enumerate(finding.signature.results):
        shapes = {getattr(results[result], "shape", None) for results in look.results}
        if finding.kept and kind is Type.P and len(shapes) > 1:
            return SignatureJudgement(
                finding.signature, f"result {result} differs in shape between ranks, so there is no sum"
            )
    return finding


def _why(signature: Signature, look: Observation, argument: int, result: int) -> str:
    kind, result_kind = signature.arguments[argument], signature.results[result]
    loss = (result, result_kind.loss_differs)
    slopes = look.slopes[loss][argument]
    if slopes is None:
        return ""
    # The ranks share the loss of a result of type I, of which each one was given the whole.
    slopes = slopes.scaled(1 / len(look.results)) if result_kind is Type.I else slopes
    gradients = [rank[argument] for rank in look.gradients[loss]]
    return problem(kind, slopes, gradients, result_kind.loss_differs, _named(signature, argument, result))


def _named(signature: Signature, argument: int, result: int) -> str:
    of = f" of argument {argument}" if len(signature.arguments) > 1 else ""
    by = f" by result {result}" if len(signature.results) > 1 else ""
    return f"the gradient{of}{by}"
