"""Put Function classes under a witness while a block runs: their methods are replaced, then restored.

PyTorch makes a class of contexts for each Function class; that class is under it as well. PyTorch itself is left alone,
but for the metaclass of Functions, where a class that the block makes anew is met.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.autograd.function import FunctionMeta

from conformance.kit.observation.witness import Witness
from conformance.kit.stand_ins import replaced, standing_in


@contextmanager
def witnessing(*functions: type) -> Iterator[Witness]:
    """Watch every call of these Function classes, and of classes that the same code makes anew inside the block.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return 2 * x
    >>> with witnessing(Double) as witness:
    ...     y = Double.apply(torch.ones(1))
    >>> [(step.method, step.phase) for step in witness.calls[0].steps]
    [('save_for_backward', 'forward')]
    """
    witness = Witness()
    with ExitStack() as stack:
        for function in functions:
            _stand_in_for(function, witness, stack)
        stack.enter_context(_witnessing_new(functions, witness, stack))
        yield witness


def _stand_in_for(function: Any, witness: Witness, stack: ExitStack) -> None:
    for name, member in _stand_ins(function, witness):
        stack.enter_context(replaced(function, name, staticmethod(member)))
    stack.enter_context(replaced(function._backward_cls, "__setattr__", _setter(witness)))


@contextmanager
def _witnessing_new(functions: tuple[type, ...], witness: Witness, stack: ExitStack) -> Iterator[None]:
    """Watch classes as they are created: a callable may create its class anew at each call."""
    known = {
        (function.__module__, function.__qualname__) for function in functions if "<locals>" in function.__qualname__
    }
    original = FunctionMeta.__init__

    def init(function: Any, *args: Any) -> None:
        original(function, *args)
        if (function.__module__, function.__qualname__) in known:
            _stand_in_for(function, witness, stack)

    with replaced(FunctionMeta, "__init__", init):
        yield


def _stand_ins(function: Any, witness: Witness) -> Iterator[tuple[str, Callable[..., Any]]]:
    base = torch.autograd.Function
    separate = function.setup_context is not base.setup_context
    methods = {
        "forward": witness.separate_forward if separate else witness.combined_forward,
        "setup_context": witness.setup_context,
        "backward": witness.backward,
        "vjp": witness.backward,
        "jvp": witness.jvp,
    }
    for name, method in methods.items():
        original = getattr(function, name)
        if original is not getattr(base, name):
            yield name, standing_in(original, functools.partial(method, original))


def _setter(witness: Witness) -> Callable[[Any, str, Any], None]:
    def setattribute(context: Any, name: str, value: Any) -> None:
        witness.note(context, name, value)
        object.__setattr__(context, name, value)

    return setattribute
