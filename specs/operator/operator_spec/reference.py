"""An operator of ``torch.library``: what it must do besides what every Function must do, and one that does it."""

from __future__ import annotations

from typing import Any

import torch

from conformance import Subject

SPEC = "Operator"
#: The documents that clauses quote.
DOCUMENTS = {
    "L": ("torch.library", "https://docs.pytorch.org/docs/stable/library.html"),
    "U": (
        "Custom Python Operators",
        "https://docs.pytorch.org/tutorials/advanced/python_custom_ops.html",
    ),
}


class Operator:
    """A function that PyTorch knows by its name and schema, as ``torch.library.custom_op`` registers it.

    .. clause:: Operator.schema.mutates
       :level: must
       :sources: L "MUST be accurate", L "else, the behavior is undefined"

       It changes exactly the arguments that its schema marks as mutated, such as ``Tensor(a!) x``, and no other.

    .. clause:: Operator.schema.no-alias
       :level: must
       :sources: U "may not be aliases of"

       A tensor that it returns is a fresh one: no argument, no view of an argument, and no view of another result;
       unless the schema says that it is.

    .. clause:: Operator.fake.meta
       :level: must
       :sources: L "the behavior of the operator on Tensors that carry no data"

       The fake kernel gives what the real one gives, but for the data: as many results, with the same sizes, strides
       and dtypes, for arguments of any layout and of other sizes.

    .. clause:: Operator.fake.no-data
       :level: must
       :sources: L "cannot access the data"

       The fake kernel reads no data of its arguments. Where a size depends on data, it is ``new_dynamic_size()``.

    .. clause:: Operator.autograd.registered
       :level: must
       :sources: L "Registers a backward formula for this custom op", L "test_autograd_registration"

       It has a formula, or differentiating it raises an error: it gives no gradients that come of the operations its
       kernel happens to be made of.

    .. clause:: Operator.autograd.traceable
       :level: must
       :sources: L "must be a traceable function"

       Its formula can be traced: with fake tensors, forward and backward give gradients of the same sizes and dtypes
       as with real ones.

    .. clause:: Operator.vmap.batched
       :level: must
       :sources: L "Register a vmap implementation"

       Where it has a rule for ``torch.vmap``, that gives what calling it sample by sample gives, for a batch along any
       dimension of each argument.
    """


@torch.library.custom_op("operator_spec::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Return ``x * factor``; it keeps what :class:`Operator` says."""
    return x * factor


@scaled.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple[torch.Tensor, float], output: torch.Tensor) -> None:
    ctx.factor = inputs[1]


def _differentiate(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
    return scaled(grad, ctx.factor), None


def _batched(info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, factor: float) -> Any:
    return scaled(x, factor), in_dims[0]


scaled.register_autograd(_differentiate, setup_context=_keep)
scaled.register_vmap(_batched)
reference = Subject(
    scaled, spec=SPEC, inputs=[(torch.linspace(-1, 1, 6, dtype=torch.float64).view(2, 3).requires_grad_(), 0.5)]
)
