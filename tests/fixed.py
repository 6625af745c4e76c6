"""The code of the usual fixes as subjects: for each clause ``wrong`` and ``right``, each on a class that is right.

What a fix shows is a member or two; the rest of the class is here, or in the reference.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import torch
import torch.distributed as dist

from conformance import GROUP, Subject
from conformance.core.clauses import registry
from conformance.core.homes import facts_in, ours
from spec_impl import ksuit, megatron, nested_io, nesting, torchlogix, towhee
from tests.correct import collective
from tests.correct._collectives import gathered, own_part
from tests.planted._square import Square, SquareSeparate, SquareWithRule

FIXES = tomllib.loads((Path(__file__).parents[1] / "conf" / "fixes.toml").read_text("utf-8"))
for _home in ours().values():
    FIXES |= facts_in(_home.folder, _home.name)["fixes"]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.set_materialize_grads(False)
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return 2 * first + 3 * second


class Doubled(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class Sorted(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad, *_):
        (places,) = ctx.saved_tensors
        return torch.zeros_like(grad).scatter(-1, places, grad)


class LocalRows(towhee.AllGather):
    @staticmethod
    def forward(ctx, tensor, args):
        rows = len(tensor)
        ctx.rank, ctx.args = args.local_rank, args
        ctx.start, ctx.end = args.local_rank * rows, (args.local_rank + 1) * rows
        return towhee.AllGather.forward(ctx, tensor, args)

    @staticmethod
    def backward(ctx, grad):
        return grad.chunk(dist.get_world_size() if dist.is_initialized() else 1)[ctx.rank].clone(), None


def _random(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7)).requires_grad_()


WHICH = ("wrong", "right")
HELPERS = ("make_viewless_tensor",)
VECTOR = ((_random(5),),)
#: The right class that a fix is about, and what it is called with: by the beginning of the clause's id.
AROUND = {
    "Function.": (Square, VECTOR),
    "Function.backward.accepts": (Pair, VECTOR),
    "Function.backward.count": (Scaled, ((_random(5), 3.0),)),
    "Function.backward.undefined": (Scaled, ((_random(5), 3.0),)),
    "Function.backward.needs-input-grad-honoured": (Product, ((_random(5), _random(5)),)),
    "Function.backward.unused-output": (Pair, VECTOR),
    "Function.jvp.accepts": (Product, ((_random(5), _random(5)),)),
    "Function.jvp.count": (Pair, VECTOR),
    "Function.jvp.tangent": (Product, ((_random(5), _random(5)),)),
    "Function.vmap": (SquareSeparate, VECTOR),
    "Function.save_for_backward.only-tensors": (Scaled, ((_random(5), 3.0),)),
    "Function.mark_dirty": (Doubled, VECTOR),
    "Function.mark_non_differentiable": (Sorted, VECTOR),
    "AllGatherGradAutograd.": (ksuit.AllGatherGradAutograd, None),
    "AllGatherGradAutograd.vmap": (ksuit.AllGatherGradAutogradSeparate, None),
    "AllGather.": (LocalRows, None),
    "AllGather.vmap": (towhee.AllGatherSeparate, None),
    "GradFactor.": (torchlogix.GradFactor, None),
    "GradFactor.vmap": (torchlogix.GradFactorSeparate, None),
    "MakeViewlessTensor.": (megatron.MakeViewlessTensor, None),
    "make_viewless_tensor.": (megatron.MakeViewlessTensor, None),
    "NestedIOFunction.": (nested_io.NestedIOFunction, None),
    "Collective.": (collective.Reduce, ((_random(6, 2), GROUP),)),
    "Collective.backward.types": (collective.Copy, ((_random(6, 2), GROUP),)),
    "Collective.backward.unused": (collective.TwoGathers, ((_random(6, 2), GROUP),)),
}
#: What the code may name beside the class itself: what its module would import.
MODULES = (nesting, ksuit, megatron, nested_io, torchlogix, towhee)
NAMES = {
    **{name: value for module in MODULES for name, value in vars(module).items() if not name.startswith("_")},
    "Square": SquareWithRule,
    "gathered": lambda x, group: torch.cat(gathered(x, group)),
    "own_rows": own_part,
}


def name_of(clause: str, which: str) -> str:
    """What the subject of a fix is called here."""
    return f"{which}_{clause.replace('.', '_').replace('-', '_')}"


def _subject(clause: str, which: str) -> Subject:
    base, inputs = next(AROUND[key] for key in sorted(AROUND, key=len, reverse=True) if clause.startswith(key))
    members: dict[str, object] = {}
    exec(FIXES[clause][which], dict(NAMES), members)  # the project's own code
    spec = registry()[clause].spec
    helpers = tuple((name, members.pop(name)) for name in HELPERS if name in members)
    gather = members.pop("gather", None)
    if spec != "NestedIOFunction":  # which is written as an instance
        members = {name: staticmethod(member) if callable(member) else member for name, member in members.items()}
    return Subject(
        gather or type(name_of(clause, which), (base,), members),
        spec=spec,
        inputs=inputs,
        helpers=helpers,
        types=getattr(base, "TYPES", None),
        name=name_of(clause, which),
    )


globals().update({name_of(clause, which): _subject(clause, which) for clause in FIXES for which in WHICH})
