"""The reference collectives as tests call them: by name, in both forms, in any group."""

from __future__ import annotations

import pytest
import torch

from conformance.core.signatures import parse
from conformance.kit.typed_values import argument
from spec_impl import collectives, collectives_exchange, collectives_gather, collectives_scatter, collectives_source

MODULES = (collectives, collectives_source, collectives_scatter, collectives_gather, collectives_exchange)
SOURCE = 1
#: The arguments between the tensor and the group.
MORE = {"Broadcast": (SOURCE,), "ReduceToSource": (SOURCE,)}
#: Those that deal out or join rows.
ROWS = ("Scatter", "GatherInvariant", "GatherReplicate", "ReduceScatter", "AllToAll")
NAMES = ("Copy", "Reduce", "Broadcast", "ReduceToSource", *ROWS)
FORMS = ("", "Separate")
WORLDS = [(0, 1), (0, 1, 2), (1, 2), (2, 0)]
both_forms = pytest.mark.parametrize("form", FORMS, ids=["combined", "separate"])
every_name = pytest.mark.parametrize("name", NAMES)
# A group of one rank lacks the source.
alone = pytest.mark.parametrize("name", [name for name in NAMES if name not in MORE])
every_world = pytest.mark.parametrize("members", WORLDS, ids=str)


def function(name, group, form=""):
    (home,) = (module for module in MODULES if hasattr(module, name))
    cls = getattr(home, name + form)
    return lambda x: cls.apply(x, *MORE.get(name, ()), group)


def types(name):
    (home,) = (module for module in MODULES if hasattr(module, name))
    return parse(getattr(home, name).TYPES)


def sample(ranks, *key, dtype=torch.float64):
    """The same on every rank: rows for every rank, twice."""
    generator = torch.Generator().manual_seed(len(key))
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 9, (2 * ranks.size, 3), generator=generator).to(dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(2 * ranks.size, 3, dtype=wide, generator=generator).to(dtype)


def held(ranks, name, x):
    """What every rank holds, by the type that the Function takes."""
    return [argument(types(name).arguments[0], x, rank) for rank in range(ranks.size)]
