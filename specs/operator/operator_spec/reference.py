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
    "J": ("torch.func.jvp", "https://docs.pytorch.org/docs/stable/generated/torch.func.jvp.html"),
}


class Operator:
    """A function that PyTorch knows by its name and schema, as ``torch.library.custom_op`` registers it.

    Samples give keyword-only arguments last, in the order of the schema.

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

    .. clause:: Operator.autograd.keyword-only
       :level: must
       :sources: L "keyword_only_inputs"

       Its formula finds keyword-only arguments by name in ``keyword_only_inputs`` of ``setup_context``, also those that
       are left to their defaults.

    .. clause:: Operator.autograd.out
       :level: must
       :sources: L "mutate their first Tensor argument and return it", L "mutate keyword-only output tensors and return"

       Tagged ``inplace`` it returns its first argument, tagged ``out`` the arguments that it writes into: the tensors
       themselves, not copies.

    .. clause:: Operator.vmap.batched
       :level: must
       :sources: L "Register a vmap implementation"

       Where it has a rule for ``torch.vmap``, that gives what calling it sample by sample gives, for a batch along any
       dimension of each argument, and of all of them.

    .. clause:: Operator.vmap.out-dims
       :level: must
       :sources: L "should be of the same structure as"

       The rule returns ``out_dims`` of the same structure as its results: one for each of them.

    .. clause:: Operator.autocast.rule
       :level: should
       :sources: L "casts incoming floating-point Tensors to the target dtype"

       A rule for autocast runs: under autocast the results are those for arguments cast to the rule's dtype.

    .. clause:: Operator.autocast.meta
       :level: should
       :sources: L "the behavior of the operator on Tensors that carry no data"

       Under autocast, too, the fake kernel gives results of the dtypes that the real one gives.

    .. clause:: Operator.kernel.agree
       :level: should
       :sources: L "Register an implementation for a device type for this operator"

       The kernel of a device type gives what the default kernel gives.

    .. clause:: Operator.compile.fullgraph
       :level: should
       :sources: L "the outputs (and gradients, if applicable) are the same under eager-mode PyTorch and torch.compile"

       Compiled or exported, it gives what it gives in eager mode, in one graph for all sizes.

    .. clause:: Operator.func.transforms
       :level: quality
       :sources: ours

       Under ``torch.func.grad``, ``vjp``, ``jacrev`` and ``vmap`` of these, its gradients are those of eager mode, or
       an exception comes. PyTorch's own formulas raise (pytorch/pytorch#168393, #170834, #179652).

    .. clause:: Operator.jvp.refused
       :level: must
       :sources: J "Jacobian of func evaluated at primals"

       In forward mode it gives the tangent, or raises if it has no rule for that: it gives no tangent of zeros.
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
