"""Engine bugs around instances and deprecated members."""

from __future__ import annotations

import warnings

from torch.autograd.function import BackwardCFunction, Function, FunctionCtx


def shared_storage_marks_dirty() -> None:
    """Forgets saved tensors in mark_shared_storage, but warns.

    Breaks: Function.attributes.deprecated
    """

    def mark_shared_storage(ctx, *pairs):
        warnings.warn("deprecated", FutureWarning, stacklevel=2)
        ctx.to_save = None

    FunctionCtx.mark_shared_storage = mark_shared_storage


def shared_storage_in_silence() -> None:
    """Emits no warning from mark_shared_storage.

    Breaks: Function.attributes.deprecated
    """
    FunctionCtx.mark_shared_storage = lambda ctx, *pairs: None


def saved_variables_in_silence() -> None:
    """Emits no warning from saved_variables.

    Breaks: Function.attributes.deprecated
    """
    BackwardCFunction.saved_variables = property(lambda ctx: ctx.saved_tensors)


def saved_variables_are_others() -> None:
    """Repeats a tensor in saved_variables, but warns.

    Breaks: Function.attributes.deprecated
    """

    def read(ctx):
        warnings.warn("deprecated", DeprecationWarning, stacklevel=2)
        return (*ctx.saved_tensors, ctx.saved_tensors[0])

    BackwardCFunction.saved_variables = property(read)


def everything_is_traceable() -> None:
    """Sets is_traceable to True.

    Breaks: Function.attributes.deprecated
    """
    Function.is_traceable = True


def instance_in_silence() -> None:
    """Emits no warning when an instance is created.

    Breaks: Function.init.instance
    """
    Function.__init__ = lambda self, *args, **kwargs: None


def instance_warns_of_something_else() -> None:
    """Emits a UserWarning when an instance is created, instead of a DeprecationWarning.

    Breaks: Function.init.instance
    """
    Function.__init__ = lambda self, *args, **kwargs: warnings.warn("an instance", UserWarning, stacklevel=2)


def instance_can_be_called() -> None:
    """Returns None from a call of an instance, instead of raising.

    Breaks: Function.init.instance
    """
    Function.__call__ = lambda self, *args, **kwargs: None


def instance_runs_forward() -> None:
    """Runs forward before it refuses to call an instance.

    Breaks: Function.init.instance
    """

    def call(self, *args, **kwargs):
        type(self).apply(*args, **kwargs)
        raise RuntimeError("an instance was called")

    Function.__call__ = call
