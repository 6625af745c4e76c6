"""Planted bugs: collectives that leave out tokens, and count on all ranks to leave out as many."""

from __future__ import annotations

import torch
import torch.distributed as dist

from tests.correct import collective_tokens as right
from tests.correct._collectives import summed

SPEC = "Collective"


inputs = right.inputs


class CountsItsOwnForAll(right.MeanOverTokens):
    """Divides by its own number of tokens times the number of ranks.

    Breaks: Collective.forward.types
    """

    TYPES = "V, V -> I"

    @staticmethod
    def forward(ctx, losses, mask, group):
        count = mask.sum() * dist.get_world_size(group)
        ctx.save_for_backward(mask, count)
        return summed((losses * mask).sum(), group) / count


class CountsItsOwnInBackward(right.MeanOverTokens):
    """Divides by its own number of tokens times the number of ranks in backward.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V, V -> I"

    @staticmethod
    def forward(ctx, losses, mask, group):
        ctx.save_for_backward(mask, mask.sum() * dist.get_world_size(group))
        return summed((losses * mask).sum(), group) / summed(mask.sum(), group)


class CountsItsOwnLabels(right.MeanOverLabels):
    """Divides by its own number of labels times the number of ranks in backward.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V, V -> I"
    inputs = right.scores_and_labels

    @staticmethod
    def forward(ctx, scores, labels, group):
        kept = labels != -100
        ctx.save_for_backward(labels, kept.sum() * dist.get_world_size(group))
        ctx.shape = scores.shape
        chosen = scores.gather(1, labels.clamp_min(0)[:, None])[:, 0]
        return summed((chosen * kept).sum(), group) / summed(kept.sum(), group)


class CountsItsOwnLengths(right.MeanOverLengths):
    """Divides by its own number of tokens times the number of ranks.

    Breaks: Collective.forward.types
    """

    TYPES = "V, V -> I"
    inputs = right.rows_and_lengths

    @staticmethod
    def forward(ctx, losses, lengths, group):
        mask = torch.arange(losses.shape[1]) < lengths[:, None]
        count = lengths.sum() * dist.get_world_size(group)
        ctx.save_for_backward(mask, count)
        return summed((losses * mask).sum(), group) / count


class CountsItsOwnClasses(right.MeanOfClasses):
    """Divides by its own number of each class times the number of ranks in backward.

    Breaks: Collective.backward.gradient
    """

    TYPES = "V, V -> I"
    inputs = right.losses_and_classes

    @staticmethod
    def forward(ctx, losses, classes, group):
        own = classes.bincount(minlength=3)
        ctx.save_for_backward(classes, own * dist.get_world_size(group))
        return summed((losses / summed(own, group)[classes]).sum(), group)
