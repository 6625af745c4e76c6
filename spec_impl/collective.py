"""The contract of any Function that communicates, given the SPMD types that it claims.

The types are those of PyTorch's ``spmd_types`` package (its page "Local SPMD types" is a source below).
:mod:`spec_impl.collectives` has a reference Function for each of the common signatures.
"""

from __future__ import annotations

import torch

SPEC = "Collective"


class Collective(torch.autograd.Function):
    """Any Function that communicates within a process group. Documentation only; do not subclass.

    A signature such as ``"V, R -> V, I"`` claims a type for each tensor argument and each tensor result, in order:

    =====  =========  ==========================================================================================
    type   name       meaning
    =====  =========  ==========================================================================================
    ``R``  replicate  the same on every rank; ranks use it differently, and the sum of their gradients counts
    ``I``  invariant  the same on every rank, and so is everything that follows: one loss, one gradient
    ``V``  varying    each rank has its own value and its own gradient
    ``P``  partial    each rank has a share, and the sum of the shares counts; one gradient, the same on every rank
    =====  =========  ==========================================================================================

    The types of the results define the loss, given the incoming gradient *g* of a result *y*:

    - V: the sum of <g, y> over all ranks;
    - R: <the sum of g over all ranks, y>;
    - I: <g, y>, counted once; *g* is the same on every rank;
    - P: <g, the sum of y over all ranks>; *g* is the same on every rank.

    The types of the arguments say which derivative of this loss backward returns:

    - V: the derivative with respect to this rank's argument alone;
    - R: gradients whose sum over the ranks is the derivative with respect to all copies, moved together;
    - I: the whole of that derivative, on every rank;
    - P: the derivative with respect to the sum.

    The two documented gathers differ by one letter, and both are right.
    :class:`spec_impl.ksuit.AllGatherGradAutograd` is ``"V -> R"``: each rank computes its own loss, so gradients are
    summed over the ranks. :class:`spec_impl.towhee.AllGather` is ``"V -> I"``: the loss is the same on
    every rank, so this rank's rows of the incoming gradient suffice. If they are exchanged, the first counts the loss
    once for each rank, and the second ignores the other ranks' losses.

    A Function keeps other signatures as well as its own, because some types include others: an argument of type P
    accepts a tensor of type V, and one of type V a tensor of type R; a result of type R may be used as V, and one of
    type V as P.

    .. clause:: Collective.forward.types
       :level: must
       :sources: X Local SPMD types "same values across the axis"

       A result of type R or I is the same on every rank, bit for bit. An argument of type P counts by its sum
       alone: moving a part of it from one rank to another changes nothing.

    .. clause:: Collective.forward.any-layout
       :level: quality
       :sources: ours

       A transposed, sliced or expanded argument gives the same result as a contiguous one with equal elements, or
       is refused on every rank.

    .. clause:: Collective.forward.same-calls
       :level: quality
       :sources: ours

       Every rank issues the same collectives in the same order, whatever its data.

    .. clause:: Collective.forward.complete
       :level: quality
       :sources: ours

       The results can be read at once: no work is still running, and the memory of the arguments is no longer in
       use.

    .. clause:: Collective.forward.one-rank
       :level: quality
       :sources: ours

       It works in a group of one rank, with or without a collective.

    .. clause:: Collective.backward.gradient
       :level: must
       :sources: X Local SPMD types "The gradient of Varying is Varying"

       Every gradient is the one that the types of the arguments and results define, for all ranks together.

    .. clause:: Collective.backward.types
       :level: must
       :sources: X Local SPMD types "gradients of an Invariant tensor are Invariant"

       The gradient of an argument of type I or P is the same on every rank.

    .. clause:: Collective.backward.unused
       :level: must
       :sources: X Extending PyTorch

       If there are several results, ranks may use different ones: nothing hangs, and the gradients are right. (On a
       rank that uses none at all, backward never runs, and ranks that wait for it in a collective wait forever.)

    .. clause:: Collective.backward.any-layout
       :level: should
       :sources: X Extending PyTorch

       Incoming gradients that are transposed, sliced or expanded, on all ranks or on one, give the same result as
       contiguous ones.

    .. clause:: Collective.backward.twice
       :level: quality
       :sources: ours

       The second derivative is right, or computing it raises an error.

    .. clause:: Collective.group.subgroup
       :level: should
       :sources: X torch.distributed

       It is right in a group that is not the world: one that lacks rank 0, has a gap between its ranks, or has them
       in another order.

    .. clause:: Collective.group.two-at-once
       :level: quality
       :sources: ours

       Calls in two groups of the same world do not interfere.

    Example:
        >>> import torch
        >>> import torch.distributed as dist
        >>> from spec_impl.collectives import Copy, Reduce
        >>> Copy.TYPES, Reduce.TYPES
        ('I -> R', 'P -> I')
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = torch.ones(2, requires_grad=True)
        >>> Reduce.apply(Copy.apply(x) * dist.get_rank()).sum().backward()
        >>> x.grad
        tensor([0., 0.])
        >>> dist.destroy_process_group()
    """
