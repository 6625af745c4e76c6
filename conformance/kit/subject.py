"""The subject: what is under test, how to call it, and with which inputs.

A subject is named by ``module:attribute`` and only ever imported on a rank.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Any, Concatenate

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from conformance.core.errors import UsageError
from conformance.core.output import in_a_line
from conformance.core.signatures import BadTypes
from conformance.kit import answers
from conformance.kit.declared import Formula
from conformance.kit.deviations import NotApplicable, Skipped
from conformance.kit.process_groups import GROUP
from conformance.kit.results import Form, assembled, entries_of, has_place
from conformance.kit.samples import Sample, expect_matching, prepared, samples_from
from conformance.kit.specs import GradientKind, Specification, specification
from conformance.kit.typed_samples import of_first_rank, typed

__all__ = ["Subject"]

#: A Function class, a plain callable, or the name of one, ``"module:attribute"``.
Target = Callable[..., Any] | str
#: A callable that yields tuples of arguments, the name of one, or the tuples themselves.
Inputs = Callable[[], Iterable[tuple[Any, ...]]] | Iterable[tuple[Any, ...]] | str
#: ``call(function, *args)``.
Call = Callable[Concatenate[Any, ...], Any]
#: torch.distributed's message if a collective finds no process group.
NO_GROUP = "process group has not been initialized"


@dataclass(frozen=True)
class Subject:
    """A Function class or a plain callable, with everything needed to test it.

    Args:
        target: ``"module:attribute"``, or the object itself.
        spec: name of the spec it claims to keep; ``"Function"`` is the contract alone.
        call: ``call(function, *args)``, for a signature other than the documented one.
        inputs: callable that yields argument tuples (specs ``Function`` and ``Collective``); or the tuples themselves.
        types: the SPMD type of each tensor argument and result, such as ``"P -> I"`` (spec ``Collective``).
        gradient: ``"numeric"``: the true derivative; ``"declared"``: what ``formula`` says (straight-through,
            reversed, scaled gradients); ``"spec"``: judged by the spec's own clauses.
        formula: ``formula(args, grads)`` gives the expected gradient of every argument, for ``"declared"``.
        reference: the same function written plainly, in PyTorch, with the arguments that ``call`` gets: results and
            gradients are compared with its own in double precision, as low-precision kernels need.
        helpers: functions that belong to the class under another name: ``{"make_viewless_tensor": function}``.
        result: the form of a gather's result, if it is not the documented one: ``"tuple"``
            with an entry for each rank, ``"joined"`` along ``dim``, or ``"stacked"`` along a new dimension ``dim``.
        dim: along which dimension it joins or stacks.
        name: its name in reports; by default, that of ``target``.
        ranks: world sizes in which it is judged, among those of a run, such as ``(2, 3)``; all if None.

    >>> Subject("mypkg.dist:GatherLayer", spec="AllGather", call=lambda function, x, args: function.apply(x)).label
    'mypkg.dist:GatherLayer'
    """

    target: Target
    spec: str = "Function"
    call: Call | None = None
    inputs: Inputs | None = None
    gradient: GradientKind | None = None
    formula: Formula | None = None
    reference: Callable[..., Any] | None = None
    helpers: Mapping[str, Callable[..., Any]] | tuple[tuple[str, Callable[..., Any]], ...] = ()
    result: Form | None = None
    dim: int = 0
    name: str = ""
    types: str | None = None
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.helpers, Mapping):  # what is frozen holds nothing that changes
            object.__setattr__(self, "helpers", tuple(self.helpers.items()))

    @cached_property
    def label(self) -> str:
        """Return its name in reports."""
        given = self.name or (self.target if isinstance(self.target, str) else "")
        for attribute in ("_qualname", "_qualified_op_name", "_name"):  # of an operator: its class says nothing
            given = given or getattr(self.target, attribute, "")
        name = getattr(self.target, "__qualname__", type(self.target).__qualname__)
        module = getattr(self.target, "__module__", type(self.target).__module__)
        return in_a_line(str(given or f"{module}:{name}"))

    @property
    def function(self) -> Any:
        """Return the Function class, or None if a plain callable is under test."""
        is_function = isinstance(self.target, type) and issubclass(self.target, torch.autograd.Function)
        return self.target if is_function else None

    def __call__(self, *args: Any) -> Any:
        """Call it with ``args``; a gather's result is given in the documented form."""
        found = self.undivided(*args)
        return found if self._is_documented else assembled(entries_of(found, self.form, self.dim), self._spec.result, 0)

    @property
    def _is_documented(self) -> bool:
        return (self.form, self.dim) == (self._spec.result, 0)

    def _takes(self, *args: Any) -> bool:
        """Whether the form of its result allows such arguments."""
        return self._is_documented or has_place(args[0], self.form, self.dim)

    @property
    def form(self) -> Form | None:
        """Return the form of a gather's result; None if it is not a gather."""
        return self.result or self._spec.result

    def undivided(self, *args: Any) -> Any:
        """Call it with ``args``; the result has its own form, not the documented one.

        Raises:
            NotApplicable: it joins or stacks along a dimension that the tensor does not have.
        """
        if not self._takes(*args):
            joins = "joins" if self.form == "joined" else "stacks"
            raise NotApplicable(f"it {joins} along dimension {self.dim}, which the tensor does not have")
        start = answers.processor_time()
        with self.asking_for_its_group():
            found = self.called(*args)
        answers.note(self.label, answers.processor_time() - start, found)
        return found

    @property
    def called(self) -> Callable[..., Any]:
        """Return what makes the call and nothing else: the target, called with ``call`` or as its spec does."""
        if self.call:
            call, own = self.call, self.target
            return lambda *args: call(own, *args)
        target = self._spec.make(self.target)
        # In one function each: the compiler compiles them too.
        if isinstance(target, type):
            return lambda *args: target.apply(*args)  # type: ignore[attr-defined]
        return lambda *args: target(*args)

    @contextmanager
    def asking_for_its_group(self) -> Iterator[None]:
        """End the test as skipped if the subject needs a process group and its spec provides none.

        Raises:
            Skipped: the message says how to get a group.
        """
        try:
            yield
        except (ValueError, RuntimeError) as error:
            if self.gathers or dist.is_initialized() or NO_GROUP not in str(error):
                raise
            raise Skipped(
                f"it needs a process group, and spec {self.spec} brings none: ask for one with --spec Collective, "
                'or spec="Collective" in Python'
            ) from error

    @property
    def _spec(self) -> Specification:
        return specification(self.spec)

    @property
    def gathers(self) -> bool:
        """Whether every call is a collective of all ranks."""
        return self._spec.gathers

    @property
    def gradient_kind(self) -> GradientKind:
        """Return how the gradient is judged."""
        return self.gradient or ("declared" if self.formula else self._spec.gradient)

    @property
    def separate(self) -> bool:
        """Whether the class overrides setup_context, which torch.func transforms need."""
        return self.function is not None and self.defines("setup_context")

    @property
    def transformable(self) -> bool:
        """Whether torch.func and vmap can be tried: a separate form, or a plain callable."""
        return self.function is None or self.separate

    def defines(self, member: str) -> bool:
        """Tell whether the class overrides ``member`` of :class:`torch.autograd.Function`, except by raising an error.

        A method that only raises ``NotImplementedError`` does the same as PyTorch's own.
        """
        if self.function is None:
            return False
        own = getattr(self.function, member, None)
        if own is getattr(torch.autograd.Function, member, None):
            return False
        return not (isinstance(own, FunctionType) and _is_refusal(own))

    def overriding(self, *bases: type, **methods: Callable[..., Any]) -> Subject:
        """The subject on a subclass that is called as its class is, with other static methods.

        Args:
            *bases: further ones, between the class and :class:`torch.autograd.Function`.
            **methods: each by its name.
        """
        function: Any = self.function
        members: dict[str, Any] = {name: getattr(function, name) for name in ("__module__", "__qualname__", "__doc__")}
        members |= {name: staticmethod(method) for name, method in methods.items()}
        return replace(self, target=type(function)(function.__name__, (function, *bases), members))

    @property
    def generates_vmap(self) -> bool:
        """Whether the class sets generate_vmap_rule."""
        return bool(getattr(self.function, "generate_vmap_rule", False))

    def helper(self, name: str) -> Any:
        """Return a function that belongs to the class: from ``helpers``, on the class, or beside it in its module.

        Args:
            name: what it is called there.

        Raises:
            NotApplicable: there is none.
        """
        given = dict(self.helpers).get(name) or getattr(self.target, name, None)
        found = given or getattr(sys.modules.get(getattr(self.target, "__module__", "")), name, None)
        if found is None:
            raise NotApplicable(f"no {name} beside the class; give one as Subject(helpers={{{name!r}: function}})")
        return found

    @property
    def is_typed(self) -> bool:
        """Whether its tensors have SPMD types, by which its spec's own clauses judge derivatives."""
        return self._spec.typed

    def samples(self, world: Any) -> list[Sample]:
        """Fresh sample arguments, the same at every call; each rank of the ``world`` has its own.

        Args:
            world: the ranks.

        Raises:
            NotApplicable: the types do not fit them in this world, and it is judged in others.
            UsageError: the types do not fit the tensors of a sample.
        """
        if not self.is_typed:
            return self.examples(world)
        try:
            return typed(self.examples(world), self.types, world)
        except BadTypes as error:
            if self.ranks and world.size not in self.ranks:  # such as a list with a tensor for each rank
                own = " or ".join(map(str, self.ranks))
                raise NotApplicable(f"it is judged with {own} ranks only; with {world.size}: {error}") from None
            raise UsageError(f"{self.label}: {error}") from None

    def examples(self, world: Any) -> list[Sample]:
        """Fresh sample arguments as they were given; a typed subject's are the same on every rank of the ``world``.

        Raises:
            Skipped: some ranks have tensors to differentiate that others lack.
            UsageError: there is a group among them, which the spec knows nothing of.
        """
        rank = 0 if self.is_typed else world.rank
        if self.inputs is None:
            given = self._spec.inputs(rank, world.size) if self._spec.inputs else ()
            return prepared(((label, args) for label, args in given if self._takes(*args)), world.device)
        found = samples_from(self.inputs, self.label, rank, world.device)
        if not self.is_typed and any(leaf is GROUP for sample in found for leaf in pytree.tree_leaves(sample.args)):
            raise UsageError(f"{self.label}: GROUP among the arguments is for spec Collective, not for {self.spec}")
        expect_matching(found, world)
        return of_first_rank(found, world) if self.is_typed and world.size > 1 else found


@lru_cache(maxsize=256)
def _is_refusal(method: FunctionType) -> bool:
    """Whether a method's source is only ``raise NotImplementedError``."""
    try:
        (statement,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(method)))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # no source, or not that of a method alone
        return False
    if not isinstance(statement, ast.FunctionDef):
        return False
    body = statement.body[1:] if ast.get_docstring(statement) is not None else statement.body
    return [_raised(step) for step in body] == ["NotImplementedError"]


def _raised(statement: ast.stmt) -> str:
    """Return the name of what a statement raises; empty if it does not raise."""
    raised = statement.exc if isinstance(statement, ast.Raise) else None
    named = raised.func if isinstance(raised, ast.Call) else raised
    return named.id if isinstance(named, ast.Name) else ""
