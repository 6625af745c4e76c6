"""Engine bugs around forward, setup_context and apply."""

from __future__ import annotations

import torch
from torch.autograd.function import _SingleLevelFunction

from tests.planted._engine import around_apply, around_member, combined


def missing_forward_is_identity() -> None:
    """Returns the last argument of a class without forward.

    Breaks: Function.forward.overridden
    """
    _SingleLevelFunction.forward = staticmethod(lambda *args, **kwargs: args[-1])


def missing_forward_raises_something_else() -> None:
    """Raises AttributeError for a class without forward.

    Breaks: Function.forward.overridden
    """

    def forward(*args, **kwargs):
        raise AttributeError("no forward")

    _SingleLevelFunction.forward = staticmethod(forward)


def arguments_cut_after_the_eighth() -> None:
    """Passes at most eight arguments to forward.

    Breaks: Function.forward.combined
    """

    def forward(original, cls, *args):
        return original(*args[:9]) if combined(cls) else original(*args)

    around_member("forward", forward)


def numbers_become_tensors() -> None:
    """Converts floats to tensors for forward of the combined form.

    Breaks: Function.forward.combined
    """

    def forward(original, cls, *args):
        changed = [torch.tensor(arg) if type(arg) is float else arg for arg in args]
        return original(*changed) if combined(cls) else original(*args)

    around_member("forward", forward)


def lists_are_copied() -> None:
    """Copies lists for forward of the combined form.

    Breaks: Function.forward.combined
    """

    def forward(original, cls, *args):
        return original(*[list(arg) if type(arg) is list and combined(cls) else arg for arg in args])

    around_member("forward", forward)


def forward_called_twice() -> None:
    """Calls forward of the combined form twice.

    Breaks: Function.forward.combined
    """

    def forward(original, cls, *args):
        if combined(cls):
            original(*args)
        return original(*args)

    around_member("forward", forward)


def setup_context_called_twice() -> None:
    """Calls setup_context twice if there are more than four inputs.

    Breaks: Function.setup_context.separate
    """

    def setup_context(original, cls, ctx, inputs, output):
        for _ in range(2 if len(inputs) > 4 else 1):
            original(ctx, inputs, output)

    around_member("setup_context", setup_context)


def forward_again_after_setup_context() -> None:
    """Calls forward again after setup_context if there are more than four inputs.

    Breaks: Function.setup_context.separate
    """

    def setup_context(original, cls, ctx, inputs, output):
        original(ctx, inputs, output)
        if len(inputs) > 4:
            cls.forward(*inputs)

    around_member("setup_context", setup_context)


def setup_context_gets_a_list() -> None:
    """Passes more than four inputs to setup_context as a list.

    Breaks: Function.setup_context.separate
    """

    def setup_context(original, cls, ctx, inputs, output):
        original(ctx, list(inputs) if len(inputs) > 4 else inputs, output)

    around_member("setup_context", setup_context)


def setup_context_gets_tensors_alone() -> None:
    """Passes None to setup_context for an input that is a string.

    Breaks: Function.setup_context.separate
    """

    def setup_context(original, cls, ctx, inputs, output):
        original(ctx, tuple(None if value == "text" else value for value in inputs), output)

    around_member("setup_context", setup_context)


def setup_context_always_gets_a_tuple() -> None:
    """Passes setup_context a tuple of one for a single output that is not a tensor.

    Breaks: Function.setup_context.separate
    """

    def setup_context(original, cls, ctx, inputs, output):
        original(ctx, inputs, output if isinstance(output, torch.Tensor | tuple) else (output,))

    around_member("setup_context", setup_context)


def setup_context_gets_one_tuple_unwrapped() -> None:
    """Unwraps a tuple of one that forward returned for setup_context.

    Breaks: Function.setup_context.separate
    """

    def setup_context(original, cls, ctx, inputs, output):
        single = isinstance(output, tuple) and len(output) == 1
        original(ctx, inputs, output[0] if single else output)

    around_member("setup_context", setup_context)


def defaults_left_out() -> None:
    """Omits arguments left at their default from inputs.

    Breaks: Function.setup_context.defaults
    """

    def apply(original, cls, *args, **kwargs):
        cls.given = len(args) + len(kwargs)
        return original(cls, *args, **kwargs)

    around_apply(apply)
    around_member(
        "setup_context",
        lambda original, cls, ctx, inputs, output: original(ctx, inputs[: getattr(cls, "given", None)], output),
    )


def names_come_last() -> None:
    """Moves keyword arguments to the end of inputs.

    Breaks: Function.setup_context.keywords
    """

    def apply(original, cls, *args, **kwargs):
        cls.named = tuple(kwargs.values())
        return original(cls, *args, **kwargs)

    def setup_context(original, cls, ctx, inputs, output):
        rest = tuple(value for value in inputs if not any(value is one for one in getattr(cls, "named", ())))
        original(ctx, rest + getattr(cls, "named", ()), output)

    around_apply(apply)
    around_member("setup_context", setup_context)
