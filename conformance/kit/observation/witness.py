"""Record what a Function does to its ctx: calls on ctx, arguments and results, by phase.

Its methods stand in for those of Function classes while :func:`witnessing` lasts. PyTorch makes a class of contexts for
each Function class; that class is watched as well. PyTorch itself is left alone, but for the metaclass of Functions,
where a class that the block makes anew is met.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import FunctionMeta

from conformance.kit.recording import ParameterMismatch, parameter_mismatch
from conformance.kit.stand_ins import replaced, standing_in
from conformance.kit.tensors import many, same_values

#: The methods of ctx, by the attribute that each one sets. Setting the attribute oneself counts as calling the method.
CTX_METHODS = {
    "to_save": "save_for_backward",
    "saved_for_forward": "save_for_forward",
    "dirty_tensors": "mark_dirty",
    "non_differentiable": "mark_non_differentiable",
    "materialize_grads": "set_materialize_grads",
}
#: Where the contract allows them.
EARLY = ("forward", "setup_context")
#: The effect of calling a method of ctx twice, or after forward.
LAST_COUNTS = "of two calls only the last one counts"
TOO_LATE = "too late to have an effect"


@dataclass(frozen=True)
class Step:
    """One call of a method of ctx: its name, its argument or tuple of arguments, and its phase."""

    method: str
    given: Any
    phase: str


@dataclass(frozen=True)
class Backward:
    """One call of backward or vjp: what it returned, and which of its incoming gradients it changed."""

    returned: Any
    changed: tuple[int, ...]


@dataclass(frozen=True)
class Jvp:
    """One call of jvp: the tangents and the inputs that it changed, and what it returned."""

    changed: tuple[int, ...]
    changed_inputs: tuple[int, ...]
    returned: Any


#: Stands for a value that backward did not return at all.
MISSING = "no value at all"


@dataclass
class ObservedCall:
    """One call of a Function: its ctx and what happened to it."""

    function: type
    context: Any
    inputs: tuple[Any, ...] = ()
    output: Any = None
    #: Inputs that hold other values after the call than before.
    changed: tuple[int, ...] = ()
    #: What autograd counted as changes of each input before the call; 0 for what is no tensor.
    versions: tuple[int, ...] = ()
    #: Whether forward, and setup_context where there is one, came to their end.
    complete: bool = False
    #: Tensors on ctx when forward was over and backward had not begun, which may take them away.
    kept: tuple[tuple[str, torch.Tensor], ...] = ()
    steps: list[Step] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    #: Whether a backward ended with an exception.
    failed: bool = False
    #: Calls of backward or vjp that its parameters do not allow.
    refused: list[ParameterMismatch] = field(default_factory=list)
    jvps: list[Jvp] = field(default_factory=list)

    def of(self, method: str) -> list[Step]:
        """The calls of one method of ctx, in order."""
        return [step for step in self.steps if step.method == method]


class Witness:
    """The record: one :class:`ObservedCall` for each ctx, in order of appearance."""

    def __init__(self) -> None:
        self.calls: list[ObservedCall] = []
        self._phases: list[tuple[str, Any]] = []
        self._waiting: list[tuple[tuple[int, ...], list[torch.Tensor | None]]] = []

    def call(self, context: Any) -> ObservedCall:
        """The call that a ctx belongs to."""
        for call in reversed(self.calls):
            if call.context is context:
                return call
        self.calls.append(ObservedCall(type(context)._forward_cls, context))
        return self.calls[-1]

    def returned_for(self, given: Any) -> list[Any]:
        """Return what each backward returned for the input that is this object, at any place."""
        found = []
        for call in self.calls:
            for backward in call.backwards:
                values = many(backward.returned)
                places = [place for place, value in enumerate(call.inputs) if value is given]
                found += [values[place] if place < len(values) else MISSING for place in places]
        return found

    def note(self, context: Any, attribute: str, value: Any) -> None:
        """Record that an attribute of ctx was set."""
        if attribute in CTX_METHODS:
            # The innermost phase of this very ctx: a forward may apply another Function inside.
            phase = next((name for name, whose in reversed(self._phases) if whose is context), "outside")
            self.call(context).steps.append(Step(CTX_METHODS[attribute], value, phase))

    @contextmanager
    def _phase(self, name: str, context: Any) -> Iterator[None]:
        self._phases.append((name, context))
        try:
            yield
        finally:
            self._phases.pop()

    # What stands in for the methods of a Function class, one each.

    def combined_forward(self, original: Callable[..., Any], context: Any, *args: Any, **kwargs: Any) -> Any:
        """``forward(ctx, ...)``."""
        call = self.call(context)
        call.inputs = (*args, *kwargs.values())
        call.versions = _versions(call.inputs)
        before = [_copied(value) for value in call.inputs]
        with self._phase("forward", context):
            call.output = original(context, *args, **kwargs)
        call.changed = _changed(before, call.inputs)
        call.complete = True
        return call.output

    def separate_forward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """``forward(...)``: the ctx follows, in setup_context."""
        given = (*args, *kwargs.values())
        before = (_versions(given), [_copied(value) for value in given])
        output = original(*args, **kwargs)
        self._waiting.append(before)
        return output

    def setup_context(self, original: Callable[..., Any], context: Any, inputs: Any, output: Any) -> Any:
        """``setup_context(ctx, inputs, output)``."""
        call = self.call(context)
        call.inputs, call.output = tuple(inputs), output
        with self._phase("setup_context", context):
            returned = original(context, inputs, output)
        if self._waiting:
            call.versions, before = self._waiting.pop()
            call.changed = _changed(before, call.inputs)
        call.complete = True
        return returned

    def backward(self, original: Callable[..., Any], context: Any, *grads: Any) -> Any:
        """``backward(ctx, ...)`` and ``vjp(ctx, ...)``."""
        boxed = len(grads) == 1 and isinstance(grads[0], list)
        given = tuple(grads[0]) if boxed else grads
        before = [_copied(value) for value in given]
        try:
            with self._phase("backward", context):
                returned = original(context, *grads)
        except Exception as error:
            self.call(context).failed = True
            if found := parameter_mismatch(error, original, context, *grads):
                self.call(context).refused.append(found)
            raise
        self.call(context).backwards.append(Backward(returned, _changed(before, given)))
        return returned

    def jvp(self, original: Callable[..., Any], context: Any, *tangents: Any) -> Any:
        """``jvp(ctx, ...)``."""
        call = self.call(context)
        before, inputs = ([_copied(value) for value in values] for values in (tangents, call.inputs))
        with self._phase("jvp", context):
            returned = original(context, *tangents)
        call.jvps.append(Jvp(_changed(before, tangents), _changed(inputs, call.inputs), returned))
        return returned


def _versions(values: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(
        value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0 for value in values
    )


def _copied(value: Any) -> torch.Tensor | None:
    return value.detach().clone() if isinstance(value, torch.Tensor) else None


def _changed(before: list[torch.Tensor | None], after: tuple[Any, ...]) -> tuple[int, ...]:
    pairs = enumerate(zip(before, after, strict=False))
    return tuple(place for place, (old, new) in pairs if old is not None and not same_values(old, new))


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
        stack.enter_context(replaced(FunctionMeta, "__init__", _initializer(functions, witness, stack)))
        yield witness


def _initializer(functions: tuple[type, ...], witness: Witness, stack: ExitStack) -> Callable[..., None]:
    """Return what watches classes as they are created: a callable may create its class anew at each call."""
    known = {
        (function.__module__, function.__qualname__) for function in functions if "<locals>" in function.__qualname__
    }
    original = FunctionMeta.__init__

    def init(function: Any, *args: Any) -> None:
        original(function, *args)
        if (function.__module__, function.__qualname__) in known:
            _stand_in_for(function, witness, stack)

    return init


def _stand_in_for(function: Any, witness: Witness, stack: ExitStack) -> None:
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
            member = standing_in(original, functools.partial(method, original))
            stack.enter_context(replaced(function, name, staticmethod(member)))

    def setattribute(context: Any, name: str, value: Any) -> None:
        witness.note(context, name, value)
        object.__setattr__(context, name, value)

    stack.enter_context(replaced(function._backward_cls, "__setattr__", setattribute))
