"""The rule for ``torch.vmap``: sample by sample, for a batch along any dimension."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import expect
from conformance.kit.deviations import need
from conformance.kit.marks import clause
from operator_spec.spec import has_rule, overload_of, tensors_in
from operator_spec.variants import called, fresh

BATCH = 3


@clause("Operator.vmap.batched")
def test_a_batch_gives_what_its_samples_give(subject: Any, world: Any) -> None:
    """Along each dimension of each tensor argument, with the others as they are."""
    schema = overload_of(subject.target)._schema
    need(has_rule(subject.target), "no rule for vmap is registered")
    need(not schema.is_mutable, "an operator that changes arguments has no batch of fresh results")
    seen = False
    for sample in subject.samples(world):
        args = fresh(sample.args)
        for place, value in enumerate(args):
            if not isinstance(value, torch.Tensor):
                continue
            entries = [value + number if value.is_floating_point() else value for number in range(BATCH)]
            each = [called(subject, (*args[:place], entry, *args[place + 1 :])) for entry in entries]
            for dim in range(value.dim() + 1):
                seen = True
                in_dims = tuple(dim if number == place else None for number in range(len(args)))
                batch = (*args[:place], torch.stack(entries, dim), *args[place + 1 :])
                found = torch.vmap(lambda *given: subject.target(*given), in_dims)(*batch)
                what = f"sample {sample.label} in a batch along dimension {dim} of argument {place}"
                wanted = [torch.stack(alike) for alike in zip(*map(tensors_in, each), strict=True)]
                for one, other in zip(tensors_in(found), wanted, strict=True):
                    expect.close(one, other, f"result of {what}")
    need(seen, "no argument is a tensor")
