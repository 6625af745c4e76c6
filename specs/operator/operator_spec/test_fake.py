"""The fake kernel: the operator's results without their data."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from conformance.kit import clause, expect, need
from operator_spec.spec import each_tensor, overload_of, tensors_in
from operator_spec.variants import called, variants

DATA = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
#: What PyTorch says where a kernel asks a tensor without data for them.
NO_DATA = ("Cannot access data pointer", "doesn't have storage", "data-dependent", ".numpy() is not supported")


@clause("Operator.fake.meta")
def test_the_fake_kernel_gives_what_the_real_one_does(subject: Any, world: Any) -> None:
    """As many tensors, with the same sizes, strides and dtypes, in each layout of the arguments."""
    overload_of(subject.target)
    for what, args in variants(subject, world):
        fake, error = _faked(subject, args)
        need(not _reads_data(error), "the fake kernel reads data; see Operator.fake.no-data")
        expect.that(error is None, f"the fake kernel, {what}, returns", _said(error), "register one with register_fake")
        real = tensors_in(called(subject, args))
        expect.equal(len(fake), len(real), f"number of tensors from the fake kernel, {what}")
        for number, (one, other) in enumerate(zip(fake, real, strict=True)):
            where = f"of result {number} from the fake kernel, {what}"
            expect.equal(one.dtype, other.dtype, f"dtype {where}")
            expect.equal(one.dim(), other.dim(), f"number of dimensions {where}")
            if all(isinstance(size, int) for size in one.shape):  # a size that depends on data has no number
                expect.equal(tuple(one.shape), tuple(other.shape), f"sizes {where}")
                expect.equal(_strides(one), _strides(other), f"strides {where}")


@clause("Operator.fake.no-data")
def test_the_fake_kernel_reads_no_data(subject: Any, world: Any) -> None:
    """The fake kernel returns for arguments without data."""
    overload_of(subject.target)
    for what, args in variants(subject, world):
        _, error = _faked(subject, args)
        need(error is None or _reads_data(error), f"the fake kernel raises {_said(error)}; see Operator.fake.meta")
        expect.that(
            error is None,
            f"the fake kernel, {what}, does without data",
            _said(error),
            "sizes from sizes; where one depends on data, torch.library.get_ctx().new_dynamic_size()",
        )


def _faked(subject: Any, args: tuple[Any, ...]) -> tuple[list[torch.Tensor], Exception | None]:
    """Return the tensors of the fake kernel, and what it raised."""
    with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as mode:
        try:
            return tensors_in(called(subject, each_tensor(args, mode.from_tensor))), None
        except Exception as error:
            return [], error


def _reads_data(error: Exception | None) -> bool:
    if error is None or isinstance(error, UnsupportedOperatorException):
        return False
    return isinstance(error, DATA) or any(words in str(error) for words in NO_DATA)


def _said(error: Exception | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the strides that matter: those of dimensions with more than one element."""
    return tuple(step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and tensor.numel())
