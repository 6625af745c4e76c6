"""The schema: which arguments change, and whether results are tensors of their own."""

from __future__ import annotations

from typing import Any

import torch

from conformance.kit import NotApplicable, clause, expect
from operator_spec.spec import overload_of, tensors_in
from operator_spec.variants import called, variants

FRESH = "memory of their own: return x.clone() in place of x or a view of it"


@clause("Operator.schema.mutates")
def test_only_what_the_schema_marks_is_changed(subject: Any, world: Any) -> None:
    """No argument changes that the schema does not mark, whatever its layout."""
    schema = overload_of(subject.target)._schema
    for what, args in variants(subject, world):
        before = [[tensor.clone() for tensor in tensors_in(value)] for value in args]
        called(subject, args)
        for argument, value, old in zip(schema.arguments, args, before, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                continue
            for now, then in zip(tensors_in(value), old, strict=True):
                expect.equal(
                    now.detach(),
                    then.detach(),
                    f"{argument.name} after a call, {what} (the schema says Tensor(a!) {argument.name} if it changes)",
                )


@clause("Operator.schema.no-alias")
def test_results_are_tensors_of_their_own(subject: Any, world: Any) -> None:
    """No result shares memory with an argument, or with another result, unless the schema says so."""
    schema = overload_of(subject.target)._schema
    for what, args in variants(subject, world):
        try:
            found = called(subject, args)
        except NotApplicable:
            expect.that(False, f"the results, {what}, are fresh tensors", "PyTorch refuses to return them", FRESH)
        results = found if isinstance(found, tuple | list) else (found,)
        seen = {_memory(tensor): "an argument" for tensor in tensors_in(args)}
        aliases = [one.alias_info is not None for one in schema.returns]
        for number, result in enumerate(results):
            if number < len(aliases) and aliases[number]:
                continue
            for tensor in tensors_in(result):
                shared = seen.get(_memory(tensor), "") if tensor.numel() else ""
                expect.that(
                    not shared, f"result {number}, {what}, is a fresh tensor", f"it is {shared}'s memory", FRESH
                )
                seen[_memory(tensor)] = f"result {number}"


def _memory(tensor: torch.Tensor) -> tuple[str, int]:
    return str(tensor.device), tensor.untyped_storage().data_ptr()
