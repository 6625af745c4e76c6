"""Gathers for whole runs: one that is good, and some that fail in ways that are hard to write down."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from hostile import Good


def refuses(tensor):
    raise RuntimeError("\x1b[31mred\x1b[0m [bold]x[/] <script>document.title='owned'</script> nul:\0 lone:\ud800 ]]>")


class Odd(Good):
    @staticmethod
    def forward(ctx, x):
        print("\x1b]0;title\x07 \ud800 <img src=x onerror=\"document.title='owned'\"> ::error::no")
        return refuses(x)


class Dies(Good):
    @staticmethod
    def forward(ctx, x):
        if dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), 11)
        return Good.forward(ctx, x)


class Hangs(Good):
    @staticmethod
    def backward(ctx, *grads):
        while dist.get_rank() == dist.get_world_size() - 1:
            time.sleep(0.01)  # hostile.endless_loop keeps a processor busy
        return Good.backward(ctx, *grads)


class Counts(Good):
    """Right in the first test; later calls of the same ranks are not."""

    calls = 0

    @staticmethod
    def backward(ctx, *grads):
        Counts.calls += 1
        return Good.backward(ctx, *grads) * Counts.calls


class DiesAtItsSecondCall(Good):
    """Ends the process in the second test that calls backward."""

    calls = 0

    @staticmethod
    def backward(ctx, *grads):
        DiesAtItsSecondCall.calls += 1
        if DiesAtItsSecondCall.calls == 2:
            os.abort()
        return Good.backward(ctx, *grads)


class LeavesBehind(Good):
    """Adds up gradients, and nobody waits: a rank that comes late is not counted by the others."""

    @staticmethod
    def backward(ctx, *grads):
        total = torch.stack(grads)
        time.sleep(0.05 * dist.get_rank())
        dist.all_reduce(total, async_op=True)
        return total[dist.get_rank()]


class WrongAtFirst(Good):
    """The first gradient of a process is wrong, and no other; all work is waited for."""

    calls = 0

    @staticmethod
    def backward(ctx, *grads):
        WrongAtFirst.calls += 1
        return Good.backward(ctx, *grads) * (2 if WrongAtFirst.calls == 1 else 1)


class Doubles(Good):
    @staticmethod
    def backward(ctx, *grads):
        return Good.backward(ctx, *grads) * 2


class Refuses(Good):
    """Refuses every call, before any rank has entered a collective."""

    @staticmethod
    def forward(ctx, x):
        raise TypeError(f"{x.numel()} elements are not what it takes")


class RefusesLate(Good):
    @staticmethod
    def forward(ctx, x):
        Good.forward(ctx, x)
        raise TypeError("not what it takes")


class RefusesOnce(Good):
    """The first call of a process is refused, and no other."""

    calls = 0

    @classmethod
    def refuse(cls):
        cls.calls += 1
        if cls.calls == 1:
            raise TypeError("not the first one")

    @staticmethod
    def forward(ctx, x):
        RefusesOnce.refuse()
        return Good.forward(ctx, x)


class RefusesAnew(Good):
    """Every call is refused, and none for the reason that the call before it was."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        RefusesAnew.calls += 1
        raise TypeError("not after " + "one " * RefusesAnew.calls)


class RefusesLater(Good):
    """A process may call it once."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        RefusesLater.calls += 1
        if RefusesLater.calls > 1:
            raise TypeError("not again")
        return (x.clone(),)
