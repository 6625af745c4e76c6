"""Engine bugs around which classes torch.vmap accepts."""

from __future__ import annotations

import torch
from torch._C._functorch import TransformType
from torch._functorch import autograd_function as engine
from torch.autograd.function import FunctionMeta

from tests.planted._engine import around_apply, combined
from tests.planted._engine_vmap import around_vmap, overridden


def missing_rule_is_generated() -> None:
    """Generates a vmap rule for every class without one.

    Breaks: Function.vmap.required
    """

    def wrapper(original, interpreter, cls, *operands, **named):
        if cls.generate_vmap_rule or overridden(cls):
            return original(interpreter, cls, *operands, **named)
        return engine.custom_function_call_vmap_generate_rule(interpreter, cls, *operands)

    around_vmap(wrapper)


def missing_rule_is_generated_for_differentiable_classes() -> None:
    """Generates a vmap rule for a class without one, if it has a jvp.

    Breaks: Function.vmap.required
    """
    made = FunctionMeta.__init__

    def init(cls, name, bases, attrs):
        made(cls, name, bases, attrs)
        if "jvp" in attrs and "vmap" not in attrs and "generate_vmap_rule" not in attrs and not combined(cls):
            cls.generate_vmap_rule = True

    FunctionMeta.__init__ = init


def own_rule_goes_first() -> None:
    """Uses the class's own rule if it asks for a generated one too, instead of refusing.

    Breaks: Function.vmap.both-refused
    """

    def wrapper(original, interpreter, cls, *operands, **named):
        if cls.generate_vmap_rule and overridden(cls):
            return engine.custom_function_call_vmap_helper(interpreter, cls.vmap, cls, *operands)
        return original(interpreter, cls, *operands, **named)

    around_vmap(wrapper)


def generated_rule_goes_first() -> None:
    """Uses the generated rule if a class has its own too, instead of refusing.

    Breaks: Function.vmap.both-refused
    """

    def wrapper(original, interpreter, cls, *operands, **named):
        if cls.generate_vmap_rule and overridden(cls):
            return engine.custom_function_call_vmap_generate_rule(interpreter, cls, *operands)
        return original(interpreter, cls, *operands, **named)

    around_vmap(wrapper)


def both_called_before_refusing() -> None:
    """Calls the class's own rule before it refuses a class with both rules.

    Breaks: Function.vmap.both-refused
    """

    def wrapper(original, interpreter, cls, *operands, **named):
        if cls.generate_vmap_rule and overridden(cls):
            engine.custom_function_call_vmap_helper(interpreter, cls.vmap, cls, *operands)
        return original(interpreter, cls, *operands, **named)

    around_vmap(wrapper)


def combined_form_taken() -> None:
    """Accepts the combined form under a transform.

    Breaks: Function.vmap.separate-form
    """

    def apply(original, cls, *args, **kwargs):
        if combined(cls) and torch._C._are_functorch_transforms_active():
            with torch._C._DisableFuncTorch():
                return args[0] * 2
        return original(cls, *args, **kwargs)

    around_apply(apply)


def combined_form_refused_vaguely() -> None:
    """Refuses the combined form under a transform by an error that does not help.

    Breaks: Function.vmap.separate-form
    """

    def apply(original, cls, *args, **kwargs):
        if combined(cls) and torch._C._are_functorch_transforms_active():
            raise RuntimeError("not supported")
        return original(cls, *args, **kwargs)

    around_apply(apply)


def combined_form_with_vmap_taken() -> None:
    """Accepts the combined form under torch.vmap if it defines vmap.

    Breaks: Function.vmap.separate-form
    """

    def apply(original, cls, *args, **kwargs):
        level = torch._C._functorch.peek_interpreter_stack()
        if combined(cls) and level is not None and level.key() == TransformType.Vmap and overridden(cls):
            return engine.custom_function_call(cls, *args, **kwargs)
        return original(cls, *args, **kwargs)

    around_apply(apply)
