"""The contract between PyTorch and the author of a :class:`torch.autograd.Function`.

Five documents state it, each in its own words: the pages of ksuit's ``AllGatherGradAutograd``, towhee's
``AllGather``, torchlogix's ``GradFactor``, Megatron-LM's ``MakeViewlessTensor`` and PyTorch's own
``NestedIOFunction``. Here it is written once, member by member. Sources of clauses refer to the documents by the
letters K, T, L, M and N, in this order. A clause of party *engine* is a promise of PyTorch to the author of a
Function; a clause of party *function* is a duty of the author.
"""

from __future__ import annotations

from typing import Any

import torch

SPEC = "Function"


class Function(torch.autograd.Function):
    """A differentiable operation with its own forward and its own derivative.

    Derive from it, write :meth:`forward` and :meth:`backward`, and call ``apply`` on the class. It is
    :class:`torch.autograd.Function` itself. The pages *Function: forward* to *Function: other ways to run* state
    what each member receives and must do.

    .. clause:: Function.apply.returns
       :party: engine
       :level: must
       :sources: X Extending PyTorch "return either a single"

       ``apply`` returns what forward returned: a single value for a single value, a tuple for a tuple, and every
       non-tensor unchanged.

    .. clause:: Function.apply.accepts
       :level: must
       :sources: K T L M "followed by any number of arguments"

       apply can be called with the arguments that the class is made for. forward takes them after ctx in the
       combined form. In the separate form it takes them without ctx, and setup_context takes ctx, inputs and
       output.

    .. clause:: Function.apply.direct-arguments
       :party: engine
       :level: must
       :sources: X Extending PyTorch "will only consider tensors that are direct arguments"

       A tensor inside a list, tuple or dict argument is not differentiated. It makes no result require grad,
       ``needs_input_grad`` has a single False for the whole container, and the tensor gets no gradient.

    .. clause:: Function.apply.keywords
       :party: engine
       :level: quality
       :sources: L "apply(*args, **kwargs)"
       :versions: torch>=2.13

       In both forms inputs may be passed by keyword. They reach forward under their names, and tensors among them
       get their gradients.

    .. clause:: Function.apply.subclass
       :party: engine
       :level: quality
       :sources: ours

       A tensor of a subclass reaches forward unchanged, and an output of forward keeps its class.

    .. clause:: Function.apply.view-output
       :party: engine
       :level: quality
       :sources: ours

       An output that is a view of an input can be read and differentiated. Changing it in place raises an error:
       its gradient would be wrong.

    Attributes:
        saved_tensors: In backward and jvp, the tensors that were saved, in order.
        needs_input_grad: One bool for each input of forward: True if it needs a gradient.
        to_save: The arguments of :meth:`save_for_backward`, or None.
        saved_for_forward: The arguments of :meth:`save_for_forward`, or None.
        dirty_tensors: The arguments of :meth:`mark_dirty`, or None.
        non_differentiable: The arguments of :meth:`mark_non_differentiable`, or None.
        materialize_grads: Assign it to do what :meth:`set_materialize_grads` does; it cannot be read.
        metadata: A dict of the node, free for any use.
        next_functions: The nodes that receive this node's gradients, each with the index of the node's output.
        requires_grad: Whether the node takes part in a backward pass.
        generate_vmap_rule: If True on the class, PyTorch derives :meth:`vmap`.

    Example:
        >>> import torch
        >>> from spec_impl.function import Function
        >>> class Exp(Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         result = x.exp()
        ...         ctx.save_for_backward(result)
        ...         return result
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (result,) = ctx.saved_tensors
        ...         return grad * result
        >>> x = torch.zeros(2, requires_grad=True)
        >>> Exp.apply(x).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """

    # torch's own annotations have one tensor or bool in each, and no None.
    saved_tensors: tuple[torch.Tensor | None, ...]  # type: ignore[assignment]
    needs_input_grad: tuple[bool, ...]  # type: ignore[assignment]
    to_save: tuple[torch.Tensor | None, ...] | None  # type: ignore[assignment]
    saved_for_forward: tuple[torch.Tensor | None, ...] | None  # type: ignore[assignment]
    dirty_tensors: tuple[torch.Tensor, ...] | None  # type: ignore[assignment]
    non_differentiable: tuple[torch.Tensor, ...] | None  # type: ignore[assignment]
    materialize_grads: bool
    metadata: dict[Any, Any]
    next_functions: tuple[tuple[Any, int], ...]
    requires_grad: bool
    generate_vmap_rule = False
