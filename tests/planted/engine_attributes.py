"""Engine bugs around the attributes of ctx and of grad_fn, and around instances."""

from __future__ import annotations

import torch
from torch.autograd.function import BackwardCFunction, Function, FunctionCtx

from tests.planted._engine import on_ctx


def to_save_cannot_be_read() -> None:
    """Reads ctx.to_save as None.

    Breaks: Function.attributes.reflect
    """
    on_ctx("to_save", lambda ctx, tensors: None)


def dirty_tensors_are_a_list() -> None:
    """Reads ctx.dirty_tensors as a list.

    Breaks: Function.attributes.reflect
    """
    on_ctx("dirty_tensors", lambda ctx, tensors: None if tensors is None else list(tensors))


def attributes_empty_at_first() -> None:
    """Reads ctx.saved_for_forward as an empty tuple before any call.

    Breaks: Function.attributes.reflect
    """
    on_ctx("saved_for_forward", lambda ctx, tensors: tensors or ())


def marks_add_up() -> None:
    """Keeps what an earlier call of save_for_forward saved.

    Breaks: Function.attributes.reflect
    """

    def save_for_forward(ctx, *tensors):
        if any(tensor is not None and not isinstance(tensor, torch.Tensor) for tensor in tensors):
            raise TypeError("save_for_forward takes tensors")
        ctx.saved_for_forward = (ctx.saved_for_forward or ()) + tensors

    FunctionCtx.save_for_forward = save_for_forward


def needs_input_grad_unknown_in_forward() -> None:
    """Reads ctx.needs_input_grad as False throughout during forward.

    Breaks: Function.attributes.reflect
    """

    def read(ctx, needs):
        return needs if ctx.to_save is None and getattr(ctx, "in_backward", False) else tuple(False for _ in needs)

    original = BackwardCFunction.apply

    def apply(ctx, *grads):
        ctx.in_backward = True
        return original(ctx, *grads)

    BackwardCFunction.apply = apply
    on_ctx("needs_input_grad", read)


def materialize_grads_cannot_be_assigned() -> None:
    """Ignores assignments to ctx.materialize_grads; set_materialize_grads works.

    Breaks: Function.attributes.reflect
    """
    slot = torch._C._FunctionBase.materialize_grads
    BackwardCFunction.materialize_grads = property(None, lambda ctx, value: None)
    FunctionCtx.set_materialize_grads = lambda ctx, value: slot.__set__(ctx, value)


def vmap_rule_is_none() -> None:
    """Sets generate_vmap_rule to None on classes that do not define it.

    Breaks: Function.attributes.reflect
    """
    Function.generate_vmap_rule = None


def node_has_no_name() -> None:
    """Gives nodes an empty name.

    Breaks: Function.attributes.node
    """
    BackwardCFunction.name = lambda node: ""


def next_functions_reversed() -> None:
    """Reverses the node's next_functions.

    Breaks: Function.attributes.node
    """
    on_ctx("next_functions", lambda node, reached: reached[::-1])


def metadata_forgotten() -> None:
    """Returns a new dict whenever a node's metadata is read.

    Breaks: Function.attributes.node
    """
    on_ctx("metadata", lambda node, notes: {})


def metadata_shared() -> None:
    """Shares metadata among all nodes.

    Breaks: Function.attributes.node
    """
    notes = {}
    on_ctx("metadata", lambda node, own: notes)


def hooks_of_a_node_not_called() -> None:
    """Accepts hooks on a node and never calls them.

    Breaks: Function.attributes.node
    """
    register = torch._C._FunctionBase.register_hook
    BackwardCFunction.register_hook = lambda node, hook: register(node, lambda grad_inputs, grad_outputs: None)


def prehooks_change_nothing() -> None:
    """Ignores what a node's prehook returns.

    Breaks: Function.attributes.node
    """
    register = torch._C._FunctionBase.register_prehook

    def register_prehook(node, hook):
        def call(grad_outputs):
            hook(grad_outputs)

        return register(node, call)

    BackwardCFunction.register_prehook = register_prehook


def hooks_stay() -> None:
    """Keeps calling a node's hook after its handle was removed.

    Breaks: Function.attributes.node
    """
    register = torch._C._FunctionBase.register_hook

    class Handle:
        def remove(self):
            pass

    def register_hook(node, hook):
        register(node, hook)
        return Handle()

    BackwardCFunction.register_hook = register_hook


def node_needs_no_grad() -> None:
    """Reads a node's requires_grad as False.

    Breaks: Function.attributes.node
    """
    on_ctx("requires_grad", lambda node, needs: False)


def saved_tensors_cleared_by_asking() -> None:
    """Clears saved_tensors in maybe_clear_saved_tensors, although they are still needed.

    Breaks: Function.attributes.node
    """
    BackwardCFunction.maybe_clear_saved_tensors = lambda node: setattr(node, "cleared", True)
    on_ctx("saved_tensors", lambda node, tensors: () if hasattr(node, "cleared") else tensors)
