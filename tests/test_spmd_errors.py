"""The reference collectives where they cannot do what they are asked for, and where nothing needs a gradient."""

from __future__ import annotations

import re

import pytest
import torch

from spec_impl import collectives_source
from tests.spmd_reference import MORE, NAMES, ROWS, both_forms, every_name, function, sample
from tests.spmd_world import world


def raised(ranks, group, name, case):
    x = sample(ranks)
    if case == "shapes":
        x = x.repeat(1, 1 + ranks.rank)
    elif case == "dtypes":
        x = x.to(torch.float32 if ranks.rank else torch.float64)
    elif case == "0-d":
        x = torch.tensor(1.0)
    elif case == "rows":
        x = torch.ones(ranks.size + 1, 2)
    try:
        function(name, group)(x)
    except ValueError as error:
        return str(error)


COMMUNICATE = [name for name in NAMES if name not in ("Copy", "Scatter")]
ERRORS = [
    *[(name, "shapes", "do not agree.* rank 0 has .*rank 1 has") for name in COMMUNICATE],
    *[(name, "dtypes", "do not agree.*torch.float64.*torch.float32") for name in COMMUNICATE],
    *[(name, "0-d", "a 0-d tensor has no rows") for name in ROWS],
    *[
        (name, "rows", "3 rows cannot be divided evenly among 2 ranks")
        for name in ("Scatter", "ReduceScatter", "AllToAll")
    ],
]


@pytest.mark.parametrize(("name", "case", "words"), ERRORS)
def test_errors_are_raised_on_every_rank(name, case, words):
    for message in world().run(raised, (0, 1), name, case):
        assert re.search(words, message)


def scalar_samples(ranks, group, name):
    with pytest.raises(ValueError, match="a 0-d tensor has no rows"):
        torch.vmap(function(name, group, "Separate"))(torch.ones(ranks.size))


@pytest.mark.parametrize("name", ROWS)
def test_samples_without_rows_are_not_given_those_of_vmap(name):
    world().run(scalar_samples, (0, 1), name)


def no_such_source(ranks, group, name):
    cls = getattr(collectives_source, name)
    with pytest.raises(ValueError, match="source 2 is not a rank within a process group of 2"):
        cls.apply(torch.ones(2), 2, group)


@pytest.mark.parametrize("name", MORE)
def test_a_source_must_be_a_rank_within_the_group(name):
    world().run(no_such_source, (1, 2), name)


def needs_nothing(ranks, group, name, form):
    y = function(name, group, form)(sample(ranks))
    return y.requires_grad


@both_forms
@every_name
def test_what_needs_no_gradient_gets_no_graph(name, form):
    assert world().run(needs_nothing, (0, 1), name, form) == [False, False]


def outside(ranks, group, name):
    import torch.distributed as dist

    apart = dist.new_group([0])
    if ranks.rank:
        with pytest.raises(ValueError, match="not a rank of the process group"):
            function(name, apart)(sample(ranks))


@every_name
def test_a_process_outside_the_group_is_told(name):
    world().run(outside, (0, 1, 2), name)
