"""Engine bugs around the results of vmap."""

from __future__ import annotations

import torch
from torch._functorch import autograd_function as engine

from tests.planted._engine_vmap import around_results


def out_dim_one_taken_for_zero() -> None:
    """Takes an out_dim of 1 for 0.

    Breaks: Function.vmap.out-dims-honoured
    """
    around_results(lambda output, out_dims: (output, 0 if out_dims == 1 else out_dims))


def unmapped_outputs_differ_by_sample() -> None:
    """Multiplies an output whose out_dim is None by four.

    Breaks: Function.vmap.out-dims-honoured
    """

    def change(output, out_dims):
        if out_dims is None and isinstance(output, torch.Tensor):
            return output * 4, None
        return output, out_dims

    around_results(change)


def first_out_dim_counts_for_all() -> None:
    """Uses the first out_dim for all batched outputs.

    Breaks: Function.vmap.out-dims-honoured
    """

    def change(output, out_dims):
        if isinstance(out_dims, tuple):
            first = next(dim for dim in out_dims if dim is not None)
            out_dims = tuple(None if dim is None else first for dim in out_dims)
        return output, out_dims

    around_results(change)


def outputs_that_are_no_tensors_lost() -> None:
    """Replaces outputs of vmap that are not tensors by None.

    Breaks: Function.vmap.out-dims-honoured
    """

    def change(output, out_dims):
        if isinstance(output, tuple):
            output = tuple(one if isinstance(one, torch.Tensor) else None for one in output)
        return output, out_dims

    around_results(change)


def generated_rule_reverses_samples() -> None:
    """Reverses the samples under a generated rule.

    Breaks: Function.vmap.generated
    """
    original = engine.wrap_batched

    def wrap_batched(outputs, dims, level):
        if isinstance(outputs, torch.Tensor):
            outputs = outputs.flip(dims)
        else:
            outputs = tuple(one.flip(dim) for one, dim in zip(outputs, dims, strict=True))
        return original(outputs, dims, level)

    engine.wrap_batched = wrap_batched


def generated_rule_does_not_sum_up() -> None:
    """Returns the first sample's gradient for an input that is not batched, under a generated rule, instead of the sum.

    Breaks: Function.vmap.generated
    """
    original = engine.reductify_leaf

    def reductify_leaf(grad, grad_dim, input_dim, *others):
        if grad is not None and grad_dim is not None and input_dim is None:
            return grad.select(grad_dim, 0)
        return original(grad, grad_dim, input_dim, *others)

    engine.reductify_leaf = reductify_leaf


def generated_rule_has_no_jvp() -> None:
    """Returns zero tangents under a generated rule.

    Breaks: Function.vmap.generated
    """
    original = engine.vmapify_autograd_function

    def vmapify(*description):
        cls = original(*description)
        right = cls.jvp
        cls.jvp = staticmethod(lambda ctx, *tangents: tuple(_zeroed(one) for one in right(ctx, *tangents)))
        return cls

    engine.vmapify_autograd_function = vmapify


def _zeroed(one):
    return one * 0 if isinstance(one, torch.Tensor) else one


def generated_rule_has_no_backward() -> None:
    """Returns zero gradients under a generated rule.

    Breaks: Function.vmap.generated
    """
    original = engine.vmapify_autograd_function

    def vmapify(*description):
        cls = original(*description)
        right = cls.backward
        cls.backward = staticmethod(lambda ctx, *grads: tuple(_zeroed(one) for one in right(ctx, *grads)))
        return cls

    engine.vmapify_autograd_function = vmapify
