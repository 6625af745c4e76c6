"""Gathers for whole runs: one that is good, and some that fail in ways that are hard to write down."""

from __future__ import annotations

import os

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
            pass
        return Good.backward(ctx, *grads)


class Counts(Good):
    """Right in the first test; later calls of the same ranks are not."""

    calls = 0

    @staticmethod
    def backward(ctx, *grads):
        Counts.calls += 1
        return Good.backward(ctx, *grads) * Counts.calls


class Doubles(Good):
    @staticmethod
    def backward(ctx, *grads):
        return Good.backward(ctx, *grads) * 2
