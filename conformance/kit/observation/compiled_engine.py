"""Functions for tests of PyTorch under torch.compile: their calls, and results known to be wrong in some releases.

Their gradients, tangents and batches differ from forward's own, so a result shows whose rule was used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function, forward_ad

from conformance.core.versions import matches_version
from conformance.kit.functions import build, leaf, tensor
from conformance.kit.observation.compiled import BACKEND, compiling
from conformance.kit.world import World

#: Called with a world and with what compiles a function, or leaves it as it is.
EngineCall = Callable[[World, Callable[..., Any]], torch.Tensor]
NUMBERS = (1.0, 2.0, 3.0)


#: Doubles, and claims a factor of 100.
_Double = build("separate", lambda x: 2 * x, backward=lambda ctx, grad: 100 * grad)
#: Does the same with a jvp, and a vmap that claims a factor of 7.
_DoubleWithRules = build(
    "separate",
    lambda x: 2 * x,
    backward=lambda ctx, grad: 100 * grad,
    jvp=lambda ctx, tangent: 100 * tangent,
    vmap=lambda info, in_dims, x: (7 * x, in_dims[0]),
)
_Cube = build(
    "separate",
    lambda x: x * x * x,
    lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    backward=lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
)


class _Product(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return 3 * grad * y, 5 * grad * x


class _TripledInPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        x.mul_(3)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 30 * grad


# Applied in a function of Python: by itself, ``apply`` would not be compiled.
def _double(x: torch.Tensor) -> Any:
    return _Double.apply(x)


def _with_rules(x: torch.Tensor) -> Any:
    return _DoubleWithRules.apply(x)


def _cube(x: torch.Tensor) -> Any:
    return _Cube.apply(x)


def _square(x: torch.Tensor) -> Any:
    return _Product.apply(x, x)


def _tripled(x: torch.Tensor) -> Any:
    return _TripledInPlace.apply(x)


def _tripled_within(x: torch.Tensor) -> Any:
    return _TripledInPlace.apply(1 * x)


def _tripled_and_dropped(x: torch.Tensor) -> Any:
    inside = 1 * x
    _TripledInPlace.apply(inside)
    return inside


def _gradient(call: Callable[..., Any], before: Callable[..., Any] = lambda x: x) -> EngineCall:
    def run(world: World, compile: Callable[..., Any]) -> torch.Tensor:
        x = leaf(world, *NUMBERS)
        return torch.autograd.grad(compile(call)(before(x)).sum(), x)[0]

    return run


def _second(x: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """The second derivative of ``x`` times the result, of which a part is left where the result is taken as fixed."""
    (first,) = torch.autograd.grad((x * result).sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)[0]


def _second_around(world: World, compile: Callable[..., Any]) -> torch.Tensor:
    x = leaf(world, *NUMBERS)
    return _second(x, compile(_cube)(x))


def _inside(call: Callable[[torch.Tensor], Any], leaves: bool = False) -> EngineCall:
    return lambda world, compile: compile(call)((leaf if leaves else tensor)(world, *NUMBERS))


def _around(transform: Callable[[Callable[..., Any], torch.Tensor], Any], call: Callable[..., Any]) -> EngineCall:
    return lambda world, compile: transform(compile(call), tensor(world, *NUMBERS))


def _grad(call: Callable[..., Any], x: torch.Tensor) -> Any:
    return torch.func.grad(lambda x: call(x).sum())(x)


def _grad_twice(call: Callable[..., Any], x: torch.Tensor) -> Any:
    return _grad(lambda x: _grad(call, x), x)


def _vjp(call: Callable[..., Any], x: torch.Tensor) -> Any:
    return torch.func.vjp(call, x)[1](torch.ones_like(x))[0]


def _jvp(call: Callable[..., Any], x: torch.Tensor) -> Any:
    return torch.func.jvp(call, (x,), (torch.ones_like(x),))[1]


def _vmap(call: Callable[..., Any], x: torch.Tensor) -> Any:
    return torch.vmap(call)(x)


def _dual(call: Callable[..., Any], x: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(call(forward_ad.make_dual(x, torch.ones_like(x)))).tangent


#: What a compiled call gives by the methods of its Functions; nothing of it may raise.
METHOD_CALLS: dict[str, EngineCall] = {
    "result": _inside(_double),
    "gradient": _gradient(_double),
    "gradient of a class with an unused jvp": _gradient(_with_rules),
    "gradient of one tensor given twice": _gradient(_square),
    "gradient in place": _gradient(_tripled_within),
    "gradient in place of a result that is dropped": _gradient(_tripled_and_dropped),
    "gradient in place of a tensor from outside": _gradient(_tripled, lambda x: 1 * x),
}
#: What differentiates more than once, or transforms; what is not supported raises.
TRANSFORM_CALLS: dict[str, EngineCall] = {
    "second derivative around": _second_around,
    "second derivative inside": _inside(lambda x: _second(x, _cube(x)), leaves=True),
    "torch.func.grad around": _around(_grad, _double),
    "torch.func.grad inside": _inside(lambda x: _grad(_double, x)),
    "torch.func.grad twice around": _around(_grad_twice, _cube),
    "torch.func.grad twice inside": _inside(lambda x: _grad_twice(_cube, x)),
    "torch.func.vjp around": _around(_vjp, _double),
    "torch.func.vjp inside": _inside(lambda x: _vjp(_double, x)),
    "torch.func.jvp around": _around(_jvp, _with_rules),
    "torch.func.jvp inside": _inside(lambda x: _jvp(_with_rules, x)),
    "torch.vmap around": _around(_vmap, _with_rules),
    "torch.vmap inside": _inside(lambda x: _vmap(_with_rules, x)),
    "forward mode around": _around(_dual, _with_rules),
    "forward mode inside": _inside(lambda x: _dual(_with_rules, x)),
}
#: What PyTorch is known to get wrong: in which releases, empty for 2.13, the only one that was run, and for later ones
#: until one is right; and where PyTorch keeps track of it, empty if no such place was found.
KNOWN = {
    "gradient of one tensor given twice": ("torch<2.13", "pytorch/pytorch#181146"),
    "gradient in place of a result that is dropped": ("torch<2.13", "pytorch/pytorch#184113"),
    "gradient in place of a tensor from outside": ("", ""),
    "second derivative around": ("", ""),
    "second derivative inside": ("", ""),
    "torch.func.grad inside": ("torch<2.15", "pytorch/pytorch#193279"),
    "torch.func.grad twice around": ("", ""),
    "torch.func.vjp inside": ("torch<2.15", "pytorch/pytorch#193279"),
    "torch.func.jvp inside": ("", "pytorch/pytorch#192985"),
    "torch.vmap around": ("", ""),
    "torch.vmap inside": ("", "pytorch/pytorch#186330"),
    "forward mode around": ("", "pytorch/pytorch#192985"),
    "forward mode inside": ("", "pytorch/pytorch#192985"),
}


def eager_result(world: World, call: str) -> torch.Tensor:
    """Return what a call of :data:`METHOD_CALLS` or :data:`TRANSFORM_CALLS` gives in eager mode."""
    return (METHOD_CALLS | TRANSFORM_CALLS)[call](world, lambda function: function)


def compiled_result(world: World, call: str, backend: str) -> torch.Tensor:
    """Return what it gives compiled by a backend."""
    with compiling():
        return (METHOD_CALLS | TRANSFORM_CALLS)[call](world, lambda function: torch.compile(function, backend=backend))


def excused(call: str) -> str:
    """Return why a wrong result of this call breaks no clause; empty if it does."""
    versions, issue = KNOWN.get(call, (None, ""))
    if versions is None or not matches_version(versions, torch.__version__):
        return ""
    where = f", {issue}" if issue else "; no issue of PyTorch's was found"
    return f"known of {versions or 'PyTorch 2.13'}{where}"


def is_wrong(world: World, call: str, backend: str = BACKEND) -> bool:
    """Whether a call gives another number when it is compiled than in eager mode."""
    return not torch.equal(compiled_result(world, call, backend), eager_result(world, call))
