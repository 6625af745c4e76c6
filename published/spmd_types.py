"""spmd_types, whose words the spec Collective uses; each function is documented by the signature claimed here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from conformance.kit.process_groups import GROUP
from published.collectives import ROWS, collective
from published.packages import enter

enter("spmd-types")


def _between(src: str, dst: str, **options: Any) -> Callable[..., Any]:
    """Call it with its own names of types; ``S`` is its name for V of which each rank has a part of the rows."""

    def call(function: Any, x: Any, group: Any) -> Any:
        spmd = importlib.import_module("spmd_types")
        kinds = {"S": spmd.S(0), "R": spmd.R, "I": spmd.I, "V": spmd.V, "P": spmd.P}
        return function(x, group, src=kinds[src], dst=kinds[dst], **options)

    return call


#: "all_reduce(R): P -> R"
reduce_to_replicate = collective("spmd_types:all_reduce", "P -> R", ROWS, GROUP, call=_between("P", "R"))
#: "all_reduce(I): P -> I"
reduce_to_invariant = collective("spmd_types:all_reduce", "P -> I", ROWS, GROUP, call=_between("P", "I"))
#: "all_gather(x: Varying, mesh_axis, src, dst) -> Replicate | Invariant"
gather_to_replicate = collective("spmd_types:all_gather", "V -> R", ROWS, GROUP, call=_between("S", "R"))
gather_to_invariant = collective("spmd_types:all_gather", "V -> I", ROWS, GROUP, call=_between("S", "I"))
stack_to_replicate = collective("spmd_types:all_gather", "V -> R", ROWS, GROUP, call=_between("V", "R"))
#: "reduce_scatter(x, mesh_axis, dst): Partial -> Varying"
reduce_scatter = collective("spmd_types:reduce_scatter", "P -> V", ROWS, GROUP, call=_between("P", "S"))
#: "all_to_all(x, mesh_axis, src, dst): Varying -> Varying"
all_to_all = collective(
    "spmd_types:all_to_all", "V -> V", ROWS, GROUP, call=_between("S", "S", split_dim=0, concat_dim=0)
)
#: "convert(I,R): I -> R, the backward is all_reduce(I): P -> I"
invariant_to_replicate = collective("spmd_types:convert", "I -> R", ROWS, GROUP, call=_between("I", "R"))
#: "convert(R,S(i)): R -> S(i), the backward is convert(S(i),P)"
replicate_to_varying = collective("spmd_types:convert", "R -> V", ROWS, GROUP, call=_between("R", "S"))
#: "convert(I,S(i)): I -> S(i), the backwards is all_gather(S(i),I)"
invariant_to_varying = collective("spmd_types:convert", "I -> V", ROWS, GROUP, call=_between("I", "S"))
#: "convert(R,P): R -> P, the backwards is convert(R,P)"
replicate_to_partial = collective("spmd_types:convert", "R -> P", ROWS, GROUP, call=_between("R", "P"))
#: "convert(S(i),P): S(i) -> P, the backwards is convert(R,S(i))"
varying_to_partial = collective("spmd_types:convert", "V -> P", ROWS, GROUP, call=_between("S", "P", expert_mode=True))
#: "convert(I,P): I -> P, the backwards is convert(R,I)"
invariant_to_partial = collective(
    "spmd_types:convert", "I -> P", ROWS, GROUP, call=_between("I", "P", expert_mode=True)
)
#: "reinterpret(R,V): R -> V, the backwards is reinterpret(V,P)"
taken_as_varying = collective(
    "spmd_types:reinterpret", "R -> V", ROWS, GROUP, call=_between("R", "V", expert_mode=True)
)
#: "reinterpret(V,P): V -> P, the backwards is reinterpret(R,V)"
taken_as_partial = collective("spmd_types:reinterpret", "V -> P", ROWS, GROUP, call=_between("V", "P"))
