"""Engine bugs around vmap."""

from __future__ import annotations

import torch
from torch._C._functorch import TransformType
from torch._functorch import autograd_function as engine
from torch.autograd.function import FunctionMeta

from tests.planted._engine import around_apply, combined

_OVERRIDDEN = engine.has_overridden_vmap_rule


def _around_vmap(wrapper) -> None:
    """``wrapper(original, interpreter, cls, *operands)`` stands in for what torch.vmap does with a Function."""
    table = engine.custom_function_call.functorch_table
    original = table[TransformType.Vmap]

    def call(interpreter, cls, *operands, **named):
        return wrapper(original, interpreter, cls, *operands, **named)

    table[TransformType.Vmap] = call


def _around_rule(change) -> None:
    """A class's vmap gets ``change(info, in_dims, args)``."""

    def wrapper(original, interpreter, cls, *operands, **named):
        if not _OVERRIDDEN(cls):
            return original(interpreter, cls, *operands, **named)
        rule = cls.vmap
        cls.vmap = staticmethod(lambda info, in_dims, *args: _called(rule, change(info, in_dims, args)))
        try:
            return original(interpreter, cls, *operands, **named)
        finally:
            cls.vmap = staticmethod(rule)

    _around_vmap(wrapper)


def _called(rule, changed):
    info, in_dims, args = changed
    return rule(info, in_dims, *args)


def _around_results(change) -> None:
    """What a class's vmap returns goes through ``change(output, out_dims)``."""

    def wrapper(original, interpreter, cls, *operands, **named):
        if not _OVERRIDDEN(cls):
            return original(interpreter, cls, *operands, **named)
        rule = cls.vmap
        cls.vmap = staticmethod(lambda *args: change(*rule(*args)))
        try:
            return original(interpreter, cls, *operands, **named)
        finally:
            cls.vmap = staticmethod(rule)

    _around_vmap(wrapper)


def missing_rule_is_generated() -> None:
    """A class without a vmap rule gets one all the same.

    Breaks: Function.vmap.required
    """

    def wrapper(original, interpreter, cls, *operands, **named):
        if cls.generate_vmap_rule or _OVERRIDDEN(cls):
            return original(interpreter, cls, *operands, **named)
        return engine.custom_function_call_vmap_generate_rule(interpreter, cls, *operands)

    _around_vmap(wrapper)


def missing_rule_is_generated_for_differentiable_classes() -> None:
    """A class without a vmap rule gets one where it has a jvp.

    Breaks: Function.vmap.required
    """
    made = FunctionMeta.__init__

    def init(cls, name, bases, attrs):
        made(cls, name, bases, attrs)
        if "jvp" in attrs and "vmap" not in attrs and "generate_vmap_rule" not in attrs and not combined(cls):
            cls.generate_vmap_rule = True

    FunctionMeta.__init__ = init


def own_rule_goes_first() -> None:
    """Where a class has both rules its own is used.

    Breaks: Function.vmap.both-refused
    """

    def wrapper(original, interpreter, cls, *operands, **named):
        if cls.generate_vmap_rule and _OVERRIDDEN(cls):
            return engine.custom_function_call_vmap_helper(interpreter, cls.vmap, cls, *operands)
        return original(interpreter, cls, *operands, **named)

    _around_vmap(wrapper)


def generated_rule_goes_first() -> None:
    """Where a class has both rules one is generated.

    Breaks: Function.vmap.both-refused
    """

    def wrapper(original, interpreter, cls, *operands, **named):
        if cls.generate_vmap_rule and _OVERRIDDEN(cls):
            return engine.custom_function_call_vmap_generate_rule(interpreter, cls, *operands)
        return original(interpreter, cls, *operands, **named)

    _around_vmap(wrapper)


def both_called_before_refusing() -> None:
    """Where a class has both rules its own is called, and an error raised afterwards.

    Breaks: Function.vmap.both-refused
    """

    def wrapper(original, interpreter, cls, *operands, **named):
        if cls.generate_vmap_rule and _OVERRIDDEN(cls):
            engine.custom_function_call_vmap_helper(interpreter, cls.vmap, cls, *operands)
        return original(interpreter, cls, *operands, **named)

    _around_vmap(wrapper)


def combined_form_taken() -> None:
    """Under a transform the combined form is called as if there were none.

    Breaks: Function.vmap.separate-form
    """

    def apply(original, cls, *args, **kwargs):
        if combined(cls) and torch._C._are_functorch_transforms_active():
            with torch._C._DisableFuncTorch():
                return args[0] * 2
        return original(cls, *args, **kwargs)

    around_apply(apply)


def combined_form_refused_vaguely() -> None:
    """Under a transform the combined form is refused in words that do not help.

    Breaks: Function.vmap.separate-form
    """

    def apply(original, cls, *args, **kwargs):
        if combined(cls) and torch._C._are_functorch_transforms_active():
            raise RuntimeError("not supported")
        return original(cls, *args, **kwargs)

    around_apply(apply)


def combined_form_with_vmap_taken() -> None:
    """Under torch.vmap alone the combined form is taken where it has a vmap.

    Breaks: Function.vmap.separate-form
    """

    def apply(original, cls, *args, **kwargs):
        level = torch._C._functorch.peek_interpreter_stack()
        if combined(cls) and level is not None and level.key() == TransformType.Vmap and _OVERRIDDEN(cls):
            return engine.custom_function_call(cls, *args, **kwargs)
        return original(cls, *args, **kwargs)

    around_apply(apply)


def batch_size_off_by_one() -> None:
    """info.batch_size is one too many.

    Breaks: Function.vmap.info
    """
    _around_rule(lambda info, in_dims, args: (info._replace(batch_size=info.batch_size + 1), in_dims, args))


def batch_size_of_the_first_dimension() -> None:
    """info.batch_size is the size of the first dimension of the first tensor.

    Breaks: Function.vmap.info
    """

    def change(info, in_dims, args):
        first = next(arg for arg in args if isinstance(arg, torch.Tensor))
        return info._replace(batch_size=first.shape[0]), in_dims, args

    _around_rule(change)


def randomness_always_error() -> None:
    """info.randomness is "error" whatever was asked.

    Breaks: Function.vmap.info
    """
    _around_rule(lambda info, in_dims, args: (info._replace(randomness="error"), in_dims, args))


def info_of_the_first_level() -> None:
    """In nested calls of torch.vmap info is always that of the level seen first.

    Breaks: Function.vmap.info
    """
    first = {}

    def change(info, in_dims, args):
        depth = len(torch._C._functorch.get_interpreter_stack() or ())
        if depth == 0 and first:
            info = first.pop("info")
        elif depth:
            first["info"] = info
        return info, in_dims, args

    _around_rule(change)


def in_dims_of_tensors_alone() -> None:
    """in_dims has no entry for what is no tensor.

    Breaks: Function.vmap.in-dims
    """

    def change(info, in_dims, args):
        dims = [dim for dim, arg in zip(in_dims, args, strict=True) if isinstance(arg, torch.Tensor)]
        return info, tuple(dims), args

    _around_rule(change)


def in_dims_always_zero() -> None:
    """in_dims is 0 for every mapped tensor, which is as it was given.

    Breaks: Function.vmap.in-dims
    """
    _around_rule(lambda info, in_dims, args: (info, tuple(None if dim is None else 0 for dim in in_dims), args))


def in_dims_without_none() -> None:
    """in_dims is -1 in place of None.

    Breaks: Function.vmap.in-dims
    """
    _around_rule(lambda info, in_dims, args: (info, tuple(-1 if dim is None else dim for dim in in_dims), args))


def in_dims_say_mapped_for_all_tensors() -> None:
    """in_dims is 0 for a tensor that is not mapped.

    Breaks: Function.vmap.in-dims
    """

    def change(info, in_dims, args):
        pairs = zip(in_dims, args, strict=True)
        return (
            info,
            tuple(0 if dim is None and isinstance(arg, torch.Tensor) else dim for dim, arg in pairs),
            args,
        )

    _around_rule(change)


def in_dims_are_a_list() -> None:
    """in_dims is a list.

    Breaks: Function.vmap.in-dims
    """
    _around_rule(lambda info, in_dims, args: (info, list(in_dims), args))


def samples_come_first() -> None:
    """The mapped dimension is moved to the front of the arguments, and in_dims says where it was.

    Breaks: Function.vmap.args
    """

    def change(info, in_dims, args):
        pairs = zip(in_dims, args, strict=True)
        return info, in_dims, [arg if dim is None else arg.movedim(dim, 0) for dim, arg in pairs]

    _around_rule(change)


def tensors_come_first() -> None:
    """The arguments of vmap are sorted, tensors in front.

    Breaks: Function.vmap.args
    """

    def change(info, in_dims, args):
        return info, in_dims, sorted(args, key=lambda arg: not isinstance(arg, torch.Tensor))

    _around_rule(change)


def others_left_out() -> None:
    """vmap does not get the arguments that are no tensors.

    Breaks: Function.vmap.args
    """
    _around_rule(lambda info, in_dims, args: (info, in_dims, [arg for arg in args if isinstance(arg, torch.Tensor)]))


def unmapped_tensors_expanded() -> None:
    """A tensor that is not mapped arrives with a dimension more.

    Breaks: Function.vmap.args
    """

    def change(info, in_dims, args):
        pairs = zip(in_dims, args, strict=True)
        return (
            info,
            in_dims,
            [
                arg.expand(info.batch_size, *arg.shape) if dim is None and isinstance(arg, torch.Tensor) else arg
                for dim, arg in pairs
            ],
        )

    _around_rule(change)


def out_dim_one_taken_for_zero() -> None:
    """The samples of a single output are looked for along the first dimension where out_dim says the second.

    Breaks: Function.vmap.out-dims-honoured
    """
    _around_results(lambda output, out_dims: (output, 0 if out_dims == 1 else out_dims))


def unmapped_outputs_differ_by_sample() -> None:
    """An output whose out_dim is None is scaled by the number of samples.

    Breaks: Function.vmap.out-dims-honoured
    """

    def change(output, out_dims):
        if out_dims is None and isinstance(output, torch.Tensor):
            return output * 4, None
        return output, out_dims

    _around_results(change)


def first_out_dim_counts_for_all() -> None:
    """The first entry of out_dims that is no None is used for all outputs that have one.

    Breaks: Function.vmap.out-dims-honoured
    """

    def change(output, out_dims):
        if isinstance(out_dims, tuple):
            first = next(dim for dim in out_dims if dim is not None)
            out_dims = tuple(None if dim is None else first for dim in out_dims)
        return output, out_dims

    _around_results(change)


def outputs_that_are_no_tensors_lost() -> None:
    """Outputs of vmap that are no tensors become None.

    Breaks: Function.vmap.out-dims-honoured
    """

    def change(output, out_dims):
        if isinstance(output, tuple):
            output = tuple(one if isinstance(one, torch.Tensor) else None for one in output)
        return output, out_dims

    _around_results(change)


def generated_rule_reverses_samples() -> None:
    """By a generated rule the first sample's output comes last.

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
    """By a generated rule an input that is not mapped gets the gradient of the first sample alone.

    Breaks: Function.vmap.generated
    """
    original = engine.reductify_leaf

    def reductify_leaf(grad, grad_dim, input_dim, *others):
        if grad is not None and grad_dim is not None and input_dim is None:
            return grad.select(grad_dim, 0)
        return original(grad, grad_dim, input_dim, *others)

    engine.reductify_leaf = reductify_leaf


def generated_rule_has_no_jvp() -> None:
    """By a generated rule all tangents are zero.

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
    """By a generated rule all gradients are zero.

    Breaks: Function.vmap.generated
    """
    original = engine.vmapify_autograd_function

    def vmapify(*description):
        cls = original(*description)
        right = cls.backward
        cls.backward = staticmethod(lambda ctx, *grads: tuple(_zeroed(one) for one in right(ctx, *grads)))
        return cls

    engine.vmapify_autograd_function = vmapify
