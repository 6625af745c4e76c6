"""Collectives in forward with none in backward."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import lru_cache

from conformance.scan.classes import Method, is_stub
from conformance.scan.model import Finding
from conformance.scan.source import Module
from conformance.scan.study import Study
from conformance.scan.vocabulary import COLLECTIVES

MODULES = ("torch.distributed.", "torch.distributed.distributed_c10d.")
#: How far calls of functions of the same file are followed.
DEPTH = 3


def one_sided(study: Study) -> Iterator[Finding]:
    """Forward exchanges tensors between ranks, backward sees its own rank's gradient only.

    That is right for some Functions (a local slice, a loss that only counts once), so it is never more than possible.
    """
    forward, backward = study.subject.own("forward"), study.subject.method("backward") or study.subject.method("vjp")
    if forward is None or backward is None or is_stub(backward) or _gives_nothing(backward):
        return
    module = study.subject.module
    used, _ = _reached(module, forward, DEPTH)
    if not used:
        return
    answered, clear = _reached(module, backward, DEPTH)
    if clear and not answered:
        name = sorted(used)[0]
        message = f"forward calls {name}, backward no collective: right only if other ranks' losses do not count"
        yield study.finding("Function.backward.gradient", "possible", backward.lineno, message)


def _gives_nothing(backward: Method) -> bool:
    """Whether backward returns nothing but None: there is no gradient to be wrong."""
    returned = [node.value for node in ast.walk(backward) if isinstance(node, ast.Return)]
    parts = [part for value in returned for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
    return all(part is None or (isinstance(part, ast.Constant) and part.value is None) for part in parts)


def _reached(module: Module, node: ast.AST, depth: int) -> tuple[set[str], bool]:
    """Collectives that are called, also through functions of the same file, and whether every call could be followed."""
    used: set[str] = set()
    clear = True
    functions = _functions(module)
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        full = module.names.full(call.func)
        name = full.rpartition(".")[2]
        if name in COLLECTIVES and full.startswith(MODULES):
            used.add(name)
        elif full in functions and depth:
            inner, inner_clear = _reached(module, functions[full], depth - 1)
            used |= inner
            clear = clear and inner_clear
        elif not _is_harmless(module, call, full):
            clear = False
    return used, clear


def _is_harmless(module: Module, call: ast.Call, full: str) -> bool:
    """Whether a call surely exchanges nothing: PyTorch's own, a builtin, or a method of a tensor or ctx."""
    if full.startswith("torch."):
        return True
    if isinstance(call.func, ast.Attribute):
        head = full.partition(".")[0]
        return not module.names.is_imported(head) and call.func.attr not in COLLECTIVES | {"apply"}
    return isinstance(call.func, ast.Name) and full in BUILTINS


BUILTINS = frozenset(dir(builtins))


@lru_cache(maxsize=64)
def _functions(module: Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in module.tree.body if isinstance(node, ast.FunctionDef)}
