"""What the faults here are put into: a good gather, and gathers made from it that do one thing wrong in one place."""

from __future__ import annotations

import functools
import os
import sys

import torch
import torch.distributed as dist

MARK = int(os.environ.get("HOSTILE_MARK", "7"))  # so many elements set the fault off on the last rank; 0: any


class Good(torch.autograd.Function):
    @staticmethod
    def fault(place, tensor):
        """Nothing is wrong here."""

    @classmethod
    def maybe(cls, place, tensor):
        last = dist.get_rank() == dist.get_world_size() - 1
        return cls.fault(place, tensor) if last and tensor.numel() in {MARK, MARK or tensor.numel()} else None

    @staticmethod
    def forward(ctx, x):
        gathered = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        if getattr(ctx, "kind", Good).maybe("forward", x) != "absent":
            dist.all_gather(gathered, x.contiguous())
        return tuple(gathered)

    @staticmethod
    def backward(ctx, *grads):
        total = torch.stack([grad.contiguous() for grad in grads])
        if getattr(ctx, "kind", Good).maybe("backward", grads[0]) != "absent":
            dist.all_reduce(total)
        getattr(ctx, "kind", Good).maybe("end", grads[0])
        return total[dist.get_rank()].clone()


def made(name, fault, place):
    """A gather with the fault in one place."""

    def once(here, tensor):
        return fault(tensor) if here == place else None

    kind = type(name, (Good,), {"fault": staticmethod(once)})

    def forward(ctx, x):
        ctx.kind = kind
        return Good.forward(ctx, x)

    kind.forward = staticmethod(forward)
    return kind


def subjects(*groups):
    """A module's ``__getattr__``, which makes the subject of a fault when it is asked for: a rank needs few of many."""

    @functools.cache
    def subject(name):
        place, _, fault = name.removeprefix("Good_").partition("_")
        found = [group[fault] for group in groups if fault in group]
        if place not in {"forward", "backward", "end"} or not found:
            raise AttributeError(f"there is no subject {name!r}")
        # Good_...: what comes after the fault in a run
        return type(name, (Good,), {}) if name.startswith("Good_") else made(name, found[0], place)

    return subject


def rank_at_work():
    """The rank that runs this, as the suite has it, and the request that it is answering."""
    frame = sys._getframe()
    while not {"request", "self"}.issubset(frame.f_locals):
        frame = frame.f_back
    return frame.f_locals["self"], frame.f_locals["request"]
