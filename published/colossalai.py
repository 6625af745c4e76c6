"""Colossal-AI: what the layers of shardformer and its mixtures of experts send."""

from __future__ import annotations

from conformance.kit.process_groups import GROUP
from published.collectives import HEADS, ROWS, collective, first_result
from published.packages import absent, bare, enter

_folder = enter("colossalai")
for _parent in ("colossalai.shardformer.layer", "colossalai.moe"):
    bare(_folder, _parent)
absent("colossalai.pipeline.weight_grad_store", WeightGradStore=None)
_CONVOLUTION = ("execute_conv1d_w_pass", "execute_conv1d_w_pass_grad_accum")
_LINEAR = ("execute_w_pass", "execute_w_pass_grad_accum", "is_share_sp_tp")
absent("colossalai.shardformer.layer.utils", **dict.fromkeys((*_CONVOLUTION, *_LINEAR)))
_FP8 = ("all_gather_fp8", "all_reduce_fp8", "all_to_all_fp8", "all_to_all_single_fp8", "reduce_scatter_fp8")
absent("colossalai.quantization.fp8", **dict.fromkeys(_FP8))

#: "Gather input from sequence parallel in forward and reduce-scatter gradient in backward"
gather_summing = collective(
    "colossalai.shardformer.layer._operation:_GatherForwardReduceScatterBackward", "V -> R", ROWS, GROUP, 0
)
#: "Reduce-scatter input from sequence parallel in forward and gather gradient in backward"
reduce_scatter = collective(
    "colossalai.shardformer.layer._operation:_ReduceScatterForwardGatherBackward", "P -> V", ROWS, GROUP, 0
)
#: "Split the input and keep only the corresponding chuck to the rank"
scatter = collective("colossalai.shardformer.layer._operation:_SplitForwardGatherBackward", "I -> V", ROWS, 0, GROUP)
#: "All-reduce the input from the model parallel region"
reduce = collective("colossalai.shardformer.layer._operation:_ReduceForward", "P -> I", ROWS, GROUP)
#: sums in backward, as its name says
copy = collective("colossalai.shardformer.layer._operation:_ReduceBackward", "I -> R", ROWS, GROUP)
#: "Gather the input from model parallel region and concatenate"; backward splits
gather = collective("colossalai.shardformer.layer._operation:_GatherForwardSplitBackward", "V -> I", ROWS, 0, GROUP)
#: "All-to-all communication"
all_to_all = collective("colossalai.shardformer.layer._operation:_AllToAll", "V -> V", HEADS, GROUP, 1, 2)
#: "Dispatches input tensor [e, c, h] to all experts"
experts_all_to_all = collective("colossalai.moe._operation:AllToAll", "V -> V", ROWS, GROUP, call=first_result)
