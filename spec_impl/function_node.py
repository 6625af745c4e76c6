"""What PyTorch offers on ctx, on the ``grad_fn`` of a result, and on instances.

Continues :mod:`spec_impl.function`.
"""

from __future__ import annotations

from typing import Any

from spec_impl.function import Function

SPEC = "Function"


class FunctionNode(Function):
    """The attributes of ctx and of the node in the graph, and instances of a Function.

    Documentation only; do not subclass: in PyTorch these are members of
    :class:`spec_impl.function.Function`.

    .. clause:: Function.attributes.reflect
       :party: engine
       :level: must
       :sources: T L "to_save", T L "dirty_tensors", T L "saved_for_forward", T L "non_differentiable",
          T L "materialize_grads", L "generate_vmap_rule", T L "needs_input_grad"

       On ctx, ``to_save``, ``saved_for_forward``, ``dirty_tensors`` and ``non_differentiable`` hold the last
       arguments of the method that sets them, or None. ``needs_input_grad`` can be read in forward, setup_context
       and backward. Assigning ``materialize_grads`` does what ``set_materialize_grads`` does.
       ``generate_vmap_rule`` is False on a class that does not set it.

    .. clause:: Function.attributes.node
       :party: engine
       :level: must
       :sources: T L "next_functions", T L "metadata", T L "register_hook", L "register_prehook",
          L "maybe_clear_saved_tensors"

       The ``grad_fn`` of a result is a node of the graph with ``name()``, ``next_functions``, a ``metadata``
       dict, ``register_hook``, ``register_prehook``, ``requires_grad``, ``saved_tensors`` and
       ``maybe_clear_saved_tensors``.

    .. clause:: Function.attributes.deprecated
       :party: engine
       :level: may
       :sources: T L "mark_shared_storage", T L "saved_variables", T "is_traceable"
       :versions: torch>=2.4

       Members kept for old code: ``mark_shared_storage`` warns that it is deprecated and does nothing;
       ``saved_variables`` warns and equals ``saved_tensors``; ``is_traceable`` is False, if it still exists.

    .. clause:: Function.attributes.hook-order
       :party: engine
       :level: must
       :sources: X Autograd mechanics

       For one result, hooks of the tensor run first, in the order in which they were registered. Then
       ``retain_grad`` keeps the gradient that they returned. Then the pre-hooks of the node, backward, and the
       hooks of the node run.

    .. clause:: Function.attributes.next-index
       :party: engine
       :level: must
       :sources: X Automatic differentiation package

       For each input, ``next_functions`` has the node that made it and the index of that node's output.

    .. clause:: Function.attributes.clear-saved
       :party: engine
       :level: must
       :sources: L "maybe_clear_saved_tensors"

       Called in backward, ``maybe_clear_saved_tensors`` frees what was saved, unless the graph is retained.

    .. clause:: Function.clear_saved_tensors_on_access.once
       :party: engine
       :level: must
       :sources: X torch.autograd.Function
       :versions: torch>=2.11

       With ``clear_saved_tensors_on_access = True`` on the class, ``ctx.saved_tensors`` can be read once. A tensor
       that was read and dropped is freed while backward still runs.

    .. clause:: Function.boxed_grads_call.list
       :party: engine
       :level: must
       :sources: X torch.autograd.Function
       :versions: torch>=2.13

       With ``boxed_grads_call = True`` on the class, backward receives its gradients in one list. A gradient that
       it takes out and drops is freed while backward still runs.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Warn: the class itself is what is used, not an instance of it.

        .. clause:: Function.init.instance
           :party: engine
           :level: must
           :sources: T "__call__(*args, **kwargs)", C torch 2.13.0 torch/autograd/function.py:548-563

           Making an instance emits a DeprecationWarning, and calling the instance raises RuntimeError.

        Example:
            >>> import warnings
            >>> from spec_impl.function import Function
            >>> with warnings.catch_warnings(record=True) as caught:
            ...     warnings.simplefilter("always")
            ...     instance = Function()
            >>> caught[0].category.__name__
            'DeprecationWarning'
        """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: an instance cannot be called; use ``apply`` on the class.

        Raises:
            RuntimeError: always.
        """
