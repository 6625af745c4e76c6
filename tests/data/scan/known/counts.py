"""Numbers of gradients that were wrong in published code."""

import torch
import torch.distributed as td
from torch.autograd import Function

EVERYBODY = td.group.WORLD


# known: Function.backward.count https://github.com/Lightning-AI/pytorch-lightning/issues/6624
# also: Function.backward.gradient Function.backward.double
class GatherWithGroup(Function):
    @staticmethod
    def forward(ctx, local, members=EVERYBODY):
        ctx.members = members
        parts = [torch.zeros_like(local) for _ in range(td.get_world_size())]
        td.all_gather(parts, local, group=members)
        return torch.stack(parts)

    @staticmethod
    def backward(ctx, *handed):
        joined = torch.cat(handed)
        td.all_reduce(joined, group=ctx.members)
        return joined[td.get_rank()]


def gather(tensor, members):
    return GatherWithGroup.apply(tensor, members)


# known: Function.backward.count https://github.com/huawei-noah/AdderNet/issues/21
class AdderForgets(Function):
    @staticmethod
    def forward(ctx, weights, columns):
        ctx.save_for_backward(weights, columns)
        return -(weights.unsqueeze(2) - columns.unsqueeze(0)).abs().sum(1)

    @staticmethod
    def backward(ctx, handed):
        weights, columns = ctx.saved_tensors
        difference = columns.unsqueeze(0) - weights.unsqueeze(2)
        ctx.for_weights = (difference * handed.unsqueeze(1)).sum(2)
        ctx.for_columns = (-difference.clamp(-1, 1) * handed.unsqueeze(1)).sum(0)


# known: Function.backward.count https://github.com/1zb/pytorch-image-comp-rnn/issues/4
class BinarySign(Function):
    @staticmethod
    def forward(ctx, values, training=True):
        if training:
            noise = torch.rand_like(values)
            return torch.where(noise < (1 + values) / 2, 1.0, -1.0)
        return values.sign()

    @staticmethod
    def backward(ctx, handed):
        return handed


class Binarizer(torch.nn.Module):
    def forward(self, values):
        return BinarySign.apply(values, self.training)


# known: Function.backward.count https://github.com/evanmy/sae/issues/5
class PriorPulls(Function):
    @staticmethod
    def forward(ctx, latent, prior):
        ctx.save_for_backward(latent, prior)
        return latent.clone()

    @staticmethod
    def backward(ctx, handed):
        latent, prior = ctx.saved_tensors
        return handed + (latent - prior)


# known: Function.backward.count https://github.com/getkeops/keops/issues/327
class FormulaWithManySettings(Function):
    @staticmethod
    def forward(ctx, formula, aliases, backend, dtype, device, *tensors):
        ctx.formula, ctx.backend = formula, backend
        ctx.save_for_backward(*tensors)
        return formula(*tensors)

    @staticmethod
    def backward(ctx, handed):
        gradients = [ctx.formula.derivative(place, handed) for place in range(len(ctx.saved_tensors))]
        return (None, None, None, None, *gradients)


# known: Function.backward.count docs/failures/snntorch_leaky_spike.py
class LeakySpike(Function):
    @staticmethod
    def forward(ctx, potential, slope):
        fired = (potential > 0).float()
        ctx.save_for_backward(fired)
        ctx.slope = slope
        return fired

    @staticmethod
    def backward(ctx, handed):
        (fired,) = ctx.saved_tensors
        return ((1 - fired) * ctx.slope + fired) * handed


# known: Function.backward.count docs/failures/geometric_invertible.py
class InvertsWithoutWeights(Function):
    @staticmethod
    def forward(ctx, run, count, *everything):
        ctx.run, ctx.count = run, count
        ctx.save_for_backward(*everything)
        with torch.no_grad():
            return run(*everything[:count])

    @staticmethod
    def backward(ctx, *handed):
        inputs = ctx.saved_tensors[: ctx.count]
        found = ctx.run.gradients(inputs, ctx.saved_tensors[ctx.count :] or [torch.zeros(1)], handed)
        return (None, None, *found)


class DefaultNobodyGives(Function):
    @staticmethod
    def forward(ctx, values, slope=1.0):
        ctx.slope = slope
        return values * slope

    @staticmethod
    def backward(ctx, handed):
        return handed * ctx.slope


def scaled(values):
    return DefaultNobodyGives.apply(values)


class DefaultThatIsAnswered(Function):
    @staticmethod
    def forward(ctx, values, slope=1.0):
        ctx.slope = slope
        return values * slope

    @staticmethod
    def backward(ctx, handed):
        return handed * ctx.slope, None


def scaled_by(values, slope):
    return DefaultThatIsAnswered.apply(values, slope)


class AlwaysRefuses(Function):
    @staticmethod
    def forward(ctx, first, second):
        return first + second

    @staticmethod
    def backward(ctx, handed):
        reason = "this has no derivative"
        raise RuntimeError(reason)
