"""Megatron-LM's core: tensors that are no views, fused activations, a loss that rides along, and two gathers."""

from __future__ import annotations

import importlib
from typing import Any

import torch
import torch.distributed as dist

from conformance.kit.specs import random
from conformance.kit.subject import Subject
from published.packages import bare, enter

_folder = enter("megatron-core")
for _parent in ("megatron.core.fusions", "megatron.core.transformer.moe"):
    bare(_folder, _parent)
if _folder.is_dir():
    # Its utilities and its groups import each other; with the package's own __init__ the groups come first.
    importlib.import_module("megatron.core.parallel_state")
    # Compiled, a fused activation takes 10 s in each test; its formulas are the same without.
    importlib.import_module("megatron.core.jit").disable_jit_fuser()
# It makes room for what it gathers on the current CUDA device; here that is the CPU.
torch.cuda.current_device = lambda: torch.device("cpu")

make_viewless = Subject("megatron.core.utils:MakeViewlessTensor", spec="MakeViewlessTensor")


_WITH_BIAS = [(random((3, 4), 1), random((4,), 2))]
_HALVED = [(random((3, 4), 1), False, False)]
_WEIGHTED = [(random((3, 4), 1), random((3, 1), 2))]
_WEIGHTED_HALVES = [(random((3, 4), 1), random((3, 1), 2), False)]
_WITH_LOSS = [(random((3, 4), 1), random((1,), 2))]


def _riding(args: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    return grads[0], torch.ones_like(args[1])


gelu = Subject("megatron.core.fusions.fused_bias_gelu:GeLUFunction", inputs=_WITH_BIAS)
swiglu = Subject("megatron.core.fusions.fused_bias_swiglu:SwiGLUFunction", inputs=_HALVED)
weighted_swiglu = Subject("megatron.core.fusions.fused_bias_swiglu:WeightedSwiGLUFunction", inputs=_WEIGHTED_HALVES)
weighted_squared_relu = Subject(
    "megatron.core.fusions.fused_weighted_squared_relu:WeightedSquaredReLUFunction", inputs=_WEIGHTED
)
aux_loss = Subject(
    "megatron.core.transformer.moe.moe_utils:MoEAuxLossAutoScaler",
    inputs=_WITH_LOSS,
    gradient="declared",
    formula=_riding,
)


def _slicing(function: Any, x: torch.Tensor, args: Any) -> torch.Tensor:
    return x.clone() if args.world_size == 1 else function.apply(x, dist.group.WORLD, False)


gather_summing = Subject(
    "megatron.core.tensor_parallel.mappings:_GatherFromSequenceParallelRegion",
    spec="AllGatherGradAutograd",
    result="joined",
    call=lambda function, x: function.apply(x, dist.group.WORLD, True),
)
gather_slicing = Subject(
    "megatron.core.tensor_parallel.mappings:_GatherFromSequenceParallelRegion", spec="AllGather", call=_slicing
)
