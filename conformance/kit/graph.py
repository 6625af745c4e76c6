"""The graph behind a result: which Functions made it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from conformance.kit.tensors import tensor_leaves

#: How the modules of classes begin that no user wrote: what PyTorch generates, and what a test puts before a call.
_NOT_OF_USERS = ("torch._", "conformance.")


def contexts_behind(result: Any) -> list[Any]:
    """Return the ctx of every Function in the graph of a result, nearest first.

    The graph node of a Function is the ctx that its methods receive.
    """
    return [node for node in _nodes_behind(result) if hasattr(type(node), "_forward_cls")]


def leaves_behind(result: Any) -> list[torch.Tensor]:
    """Return the tensors whose ``grad`` a backward pass from a result would add to."""
    return [node.variable for node in _nodes_behind(result) if hasattr(node, "variable")]


def _nodes_behind(result: Any) -> Iterator[Any]:
    nodes = deque(tensor.grad_fn for tensor in tensor_leaves(result) if tensor.grad_fn is not None)
    seen: set[Any] = set()
    while nodes:
        node = nodes.popleft()
        if node not in seen:
            seen.add(node)
            yield node
            nodes.extend(following for following, _ in node.next_functions if following is not None)


def functions_behind(result: Any) -> list[type]:
    """Return the Function classes in the graph of a result, nearest first."""
    return list(dict.fromkeys(type(context)._forward_cls for context in contexts_behind(result)))


def names_of_functions_behind(result: Any) -> tuple[str, ...]:
    """Return them as ``module:name``, at most ten, without generated classes of PyTorch and classes of the suite."""
    try:
        found = [(str(one.__module__), one.__qualname__) for one in functions_behind(result)]
    except RuntimeError:  # such as a view that may not be changed: PyTorch has no graph to show
        return ()
    return tuple(f"{module}:{name}" for module, name in found if not module.startswith(_NOT_OF_USERS))[:10]
