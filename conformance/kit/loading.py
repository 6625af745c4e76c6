"""Load subjects: import the objects that a command line names, and reject those that cannot be tested."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any

from torch.autograd import Function

from conformance.core.errors import UsageError
from conformance.core.prose import with_article
from conformance.core.references import check_reference, not_installed, of_file
from conformance.core.signatures import parse
from conformance.core.worlds import MOST_RANKS, are_world_sizes
from conformance.kit.frames import place_of, told
from conformance.kit.results import RESULT_FORMS
from conformance.kit.samples import MOST_SAMPLES
from conformance.kit.specs import GRADIENT_KINDS, specification
from conformance.kit.subject import Subject

#: Methods of a Function class that PyTorch calls.
FUNCTION_METHODS = ("forward", "setup_context", "backward", "vjp", "jvp", "vmap")


def load(reference: str) -> Any:
    """Import ``module:attribute``. Whatever the import raises is passed on; a malformed reference is a UsageError.

    >>> load("math:pi")
    3.141592653589793
    """
    check_reference(reference)
    module, _, path = reference.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            hint = of_file(module, path) or not_installed(error.name)
            raise UsageError(f"no module named {error.name!r} (from {reference!r}){hint and f'; {hint}'}") from None
        raise
    except SyntaxError as error:
        if not (error.filename or place_of(error)):  # for null bytes Python does not say in which file
            error.filename = module.replace(".", "/") + ".py"
        raise
    try:
        return attrgetter(path)(imported)
    except AttributeError:
        near = difflib.get_close_matches(path.lower(), {name.lower() for name in vars(imported)}, 1)
        meant = next((name for name in vars(imported) if [name.lower()] == near), "")
        hint = f"; did you mean {meant!r}?" if meant else ""
        raise UsageError(f"module {module!r} has no attribute {path!r}{hint}") from None


def load_for(option: str, reference: str) -> Any:
    """Import the object that an option names; it is not under test.

    Raises:
        UsageError: nothing has that name, or its import raises.
    """
    try:
        return load(reference)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        said = f"{option} {reference}: its import raises {told(error)}"
        raise UsageError(said) from error


def named(reference: str) -> Subject:
    """Return the Subject of a name, or an unchecked one made of the class or callable of that name."""
    target = load(reference)
    if not isinstance(target, Subject):
        return Subject(target, name=reference)
    found = load(target.target) if isinstance(target.target, str) else target.target
    return replace(target, target=found, name=target.name or reference)


def resolve(reference: str, spec: str | None, inputs: str | None, types: str | None = None) -> Subject:
    """Make the subject that a command line names; on a rank.

    Raises:
        UsageError: with one line that says what was given and what would be right.
    """
    given: dict[str, Any] = {"spec": spec or None, "inputs": inputs, "types": types}
    return check_subject(replace(named(reference), **{name: one for name, one in given.items() if one is not None}))


def check_subject(subject: Subject) -> Subject:
    """Return the subject, with its inputs imported if they are given by name.

    Raises:
        UsageError: it cannot be tested as it stands.
    """
    subject = replace(subject, target=_judged(subject.target))
    _check_kinds(subject)
    reference = subject.label
    subject = replace(subject, inputs=_checked_inputs(subject))
    own = specification(subject.spec)
    if subject.result and (subject.result not in RESULT_FORMS or not subject.gathers):
        raise UsageError(f"{reference!r}: result is one of {', '.join(RESULT_FORMS)}, for a spec that gathers")
    if subject.gradient_kind not in GRADIENT_KINDS:
        raise UsageError(f"{reference!r}: gradient is 'numeric', 'declared' or 'spec', not {subject.gradient!r}")
    if subject.gradient_kind == "declared" and subject.formula is None:
        raise UsageError(f"{reference!r}: gradient='declared' needs formula=, a function of (args, grads)")
    if subject.reference is not None and (subject.gradient_kind != "numeric" or subject.spec != "Function"):
        raise UsageError(f"{reference!r}: reference= is for spec Function, and a gradient that is a derivative")
    if subject.gradient_kind == "declared" and subject.is_typed and subject.types is None:
        raise UsageError(f"{reference!r}: a declared gradient of a collective needs types=, such as 'V -> I'")
    if subject.types is not None:
        parse(subject.types)
        if not subject.is_typed:
            raise UsageError(f"{reference!r}: types are for spec Collective, not for spec {subject.spec}")
    if subject.ranks is not None and not are_world_sizes(subject.ranks):
        raise UsageError(f"{reference!r}: ranks= are world sizes from 1 to {MOST_RANKS}, such as ranks=(2, 3)")
    if own.inputs is not None and subject.inputs is not None:
        hint = "leave out yours, or give them to spec Function"
        raise UsageError(f"{reference!r}: spec {subject.spec} has samples of its own; {hint}")
    if own.inputs is None and subject.inputs is None:
        ways = "--inputs module:callable, Subject(inputs=...), or check(function, (x, 2.0))"
        raise UsageError(f"{reference!r} needs sample inputs, tuples of arguments: {_beside(subject) or ways}")
    return subject


def _judged(target: Any) -> Any:
    """Return the class if its ``apply`` is given; of a compiled module the module, as a clause compiles it."""
    owner = getattr(target, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, Function) and target == owner.apply:
        return owner
    return getattr(target, "_orig_mod", target)


def _beside(subject: Subject) -> str:
    """Suggest inputs that are defined beside the subject; empty if there are none."""
    module, colon, _ = subject.label.partition(":")
    found = getattr(sys.modules.get(module), "inputs", None) if colon else None
    return f"does {module}:inputs yield them? Name it by --inputs, or Subject(inputs=...)" if callable(found) else ""


def _check_kinds(subject: Subject) -> None:
    """Raise UsageError for a target that cannot be called, and for fields of the wrong type."""
    reference = subject.label
    if not callable(subject.target):
        what = with_article(subject.target)
        raise UsageError(f"{reference!r} is {what}, not a Function class, a callable or a Subject")
    if isinstance(subject.target, type) and subject.function is None:
        hint = "; give an instance of it" if any("__call__" in vars(base) for base in subject.target.__mro__) else ""
        raise UsageError(f"{reference!r} is a class, but no subclass of torch.autograd.Function{hint}")
    if isinstance(subject.target, Function) and type(subject.target).__call__ is Function.__call__:
        name = type(subject.target).__qualname__
        raise UsageError(f"{reference!r} is an instance of {name}, which PyTorch does not call; give the class")
    if _is_method(subject.target):
        name = subject.target.__name__
        raise UsageError(f"{reference!r} is {name} of a Function, whose ctx apply makes; give the class")
    for field, kind in (("name", str), ("spec", str), ("dim", int)):
        if type(given := getattr(subject, field)) is not kind:
            raise UsageError(f"{reference!r}: {field}= is {with_article(given)}, not {with_article(kind())}")
    for name in ("call", "formula", "reference"):
        given = getattr(subject, name)
        if given is not None and not callable(given):
            raise UsageError(f"{reference!r}: {name}= is {with_article(given)}, not a function")


def _is_method(target: Any) -> bool:
    """Whether a target is a method of a Function class, such as its forward, instead of the class."""
    if not inspect.isfunction(target) or target.__name__ not in FUNCTION_METHODS:
        return False
    owner: Any = sys.modules.get(target.__module__)
    for name in target.__qualname__.split(".")[:-1]:
        owner = getattr(owner, name, None)
    return isinstance(owner, type) and issubclass(owner, Function)


def _checked_inputs(subject: Subject) -> Any:
    """Return the inputs as a callable, or as tuples that can be iterated more than once."""
    inputs = load_for("the inputs", subject.inputs) if isinstance(subject.inputs, str) else subject.inputs
    if inputs is None or callable(inputs):
        return inputs
    if not isinstance(inputs, Iterable):
        raise UsageError(
            f"the inputs of {subject.label} are {with_article(inputs)}; give a callable that yields tuples of arguments"
        )
    given = tuple(islice(inputs, MOST_SAMPLES + 1))
    if isinstance(inputs, Iterator) and not given:
        raise UsageError(
            f"the inputs of {subject.label} are {with_article(inputs)} that yields nothing, or is used up; "
            "give the callable that makes it"
        )
    return given
