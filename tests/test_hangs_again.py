"""A hang that two tests waited out is not waited out again; what else the subject does is judged as ever."""

from __future__ import annotations

import re

import pytest
import torch.distributed as dist
from torch.autograd import Function

from conformance import GROUP, ConformanceError, check
from tests.one_gradient import matrix

TIMEOUT = 5.0


class HangsInBackward(Function):
    """Sums; in backward, rank 0 alone sends what it got."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        if dist.get_rank(ctx.group) == 0:
            dist.broadcast(grad.clone(), group_src=0, group=ctx.group)
            dist.all_reduce(grad.clone(), group=ctx.group)
        return grad, None


def test_two_tests_wait_for_their_deadline_and_later_ones_do_not():
    only = "Collective.forward.same-calls"
    with pytest.raises(ConformanceError) as caught:
        check(
            HangsInBackward,
            (matrix(), GROUP),
            types="P -> I",
            spec="Collective",
            ranks=3,
            only=only,
            timeout=TIMEOUT,
            strict=True,
        )
    found = [test for test in caught.value.report.subjects[0].clause(only).tests if test.world == 3]
    assert {test.outcome for test in found} == {"timeout"}
    # On a busy machine calls are slow, so a deadline is later than the one given, and that ranks do nothing shows late.
    whole = [test for test in found if re.search(r"did not finish within [\d.e+]+ s", test.message)]
    assert 2 <= len(whole) < len(found), [test.message for test in found]
    assert all("rank 0 called broadcast" in test.message for test in found)
