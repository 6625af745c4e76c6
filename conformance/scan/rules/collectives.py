"""Find collectives in forward with none in backward."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import lru_cache

from conformance.scan.classes import Method, is_stub
from conformance.scan.exchanges import any_collective
from conformance.scan.helpers import Helpers
from conformance.scan.model import Finding
from conformance.scan.source import Module
from conformance.scan.study import Study
from conformance.scan.vocabulary import COLLECTIVES, REDUCTIONS

#: How deep helpers of helpers are followed.
DEPTH = 3


def one_sided(study: Study) -> Iterator[Finding]:
    """Find classes whose forward exchanges tensors, and whose backward sees only its own rank's gradient.

    That is right for some Functions (a local slice, a loss that counts once), so it is never more than possible.
    """
    forward = study.subject.own("forward")
    backward = study.subject.method("backward") or study.subject.method("vjp")
    if forward is None or backward is None or is_stub(backward) or _gives_nothing(backward):
        return
    module = study.subject.module
    used, _ = _reached(study.helpers, module, forward, DEPTH)
    if not used:
        return
    answered, clear = _reached(study.helpers, module, backward, DEPTH)
    if used <= REDUCTIONS and not _hands_through(study):
        return  # its author derived a formula, and reductions rarely need an answer
    if clear and not answered:
        name = sorted(used)[0]
        message = (
            f"forward calls {name} but backward calls no collective: are gradients from other ranks ignored on purpose?"
        )
        yield study.finding("Function.backward.gradient", "possible", backward.lineno, message)


def _gives_nothing(backward: Method) -> bool:
    """Tell whether backward returns only None: no gradient can be wrong."""
    returned = [node.value for node in ast.walk(backward) if isinstance(node, ast.Return)]
    parts = [part for value in returned for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
    return all(part is None or (isinstance(part, ast.Constant) and part.value is None) for part in parts)


def _hands_through(study: Study) -> bool:
    """Tell whether backward returns an incoming gradient unchanged."""
    backward = study.backward
    if backward is None:
        return False
    values = [item for returned in backward.trace.returns for item in (returned.value.items or (returned.value,))]
    return any(value.is_tensor and value.shares & {*backward.takes.names} for value in values)


def _reached(helpers: Helpers, module: Module, node: ast.AST, depth: int) -> tuple[set[str], bool]:
    """Return the collectives that are called, also through helpers; and whether all calls could be followed."""
    used: set[str] = set()
    clear = True
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        full = module.names.full(call.func)
        name = any_collective(full)
        helper = helpers.find(module, full) if depth and not name else None
        if name:
            used.add(name)
        elif helper is not None:
            inner, inner_clear = _reached(helpers, helper.module, helper.node, depth - 1)
            used |= inner
            clear = clear and inner_clear
        elif not _is_harmless(module, node, call, full):
            clear = False
    return used, clear


def _is_harmless(module: Module, node: ast.AST, call: ast.Call, full: str) -> bool:
    """Tell whether a call surely exchanges nothing: PyTorch's own, a builtin, or a method of a known value."""
    if full.startswith("torch."):
        return True
    if not isinstance(call.func, ast.Attribute):
        return isinstance(call.func, ast.Name) and full in BUILTINS
    head = full.partition(".")[0]
    if call.func.attr in UNCLEAR or module.names.is_imported(head) or head in _globals(module):
        return False
    # ctx may hold anything; its own methods are known.
    first = node.args.args[0].arg if isinstance(node, ast.FunctionDef) and node.args.args else ""
    return head != first or call.func.attr in CTX_METHODS


#: Methods that may well exchange something: of a Function, a request, a process group.
UNCLEAR = COLLECTIVES | {"apply", "forward", "backward", "wait", "result"}
CTX_METHODS = {
    "save_for_backward",
    "save_for_forward",
    "mark_dirty",
    "mark_non_differentiable",
    "set_materialize_grads",
}
BUILTINS = frozenset(dir(builtins))


@lru_cache(maxsize=64)
def _globals(module: Module) -> frozenset[str]:
    """Return the names that the module itself binds: classes, functions, and variables."""
    names = {node.name for node in module.tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assigned = (target for node in module.tree.body if isinstance(node, ast.Assign) for target in node.targets)
    return frozenset(names | {target.id for target in assigned if isinstance(target, ast.Name)})
