"""How NestedIOFunction is called; imported only where its tests run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch

from conformance.kit import Specification, random


def inputs(rank: int, size: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield sample arguments for a rank, each with a name."""
    named = {"a": random((2, 3), 500 + rank), "b": random((4,), 510 + rank)}
    yield "a dict, a list, a number", (named, [random((2, 3), 520 + rank), random((4,), 530 + rank)], -1.5)


@lru_cache(maxsize=8)
def nested_product(base: Any) -> Any:
    """``{name: scale * tensor * weight}``, to be called: by a subclass of NestedIOFunction in the form of ``base``.

    A value that is not a class is returned unchanged.
    """
    if not isinstance(base, type):
        return base

    def compute(tensors: dict[str, torch.Tensor], weights: list[torch.Tensor], scale: float) -> Any:
        pairs = zip(tensors.items(), weights, strict=True)
        return {name: scale * tensor * weight for (name, tensor), weight in pairs}

    def keep(ctx: Any, inputs: tuple[Any, ...]) -> None:
        *tensors, ctx.scale = inputs
        ctx.save_for_backward(*tensors)

    def differentiate(ctx: Any, grads: dict[str, torch.Tensor]) -> Any:
        tensors, weights = ctx.saved_tensors
        pairs = list(zip(tensors.items(), weights, strict=True))
        by_tensor = {name: ctx.scale * grads[name] * weight for (name, _), weight in pairs}
        return by_tensor, [ctx.scale * grads[name] * tensor for (name, tensor), _ in pairs], None

    def push(ctx: Any, by_tensor: Any, by_weight: Any, _: None) -> Any:
        tensors, weights = ctx.saved_tensors
        triples = zip(tensors.items(), weights, by_weight, strict=True)
        return {name: ctx.scale * (by_tensor[name] * w + tensor * w_t) for (name, tensor), w, w_t in triples}

    class Instance(base):  # type: ignore[misc]
        def forward_extended(self, *inputs: Any) -> Any:
            keep(self, inputs)
            if hasattr(base, "jvp_extended"):
                self.save_for_forward(*inputs[:2])
            return compute(*inputs)

        def backward_extended(self, *grads: Any) -> Any:
            return differentiate(self, *grads)

        def jvp_extended(self, *tangents: Any) -> Any:
            return push(self, *tangents)

    class Static(base):  # type: ignore[misc]
        forward_extended = staticmethod(compute)
        backward_extended = staticmethod(differentiate)
        jvp_extended = staticmethod(push)

        @staticmethod
        def setup_context_extended(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_forward(*inputs[:2])
            keep(ctx, inputs)

    return Static.apply if hasattr(base, "setup_context_extended") else lambda *args: Instance()(*args)


specification = Specification(inputs, make=nested_product)
