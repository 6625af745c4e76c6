"""Tensors that published code kept on ctx, and what its backward took away from the next one."""

import torch
from torch.autograd import Function


# known: Function.forward.no-tensor-on-ctx https://github.com/pytorch/pytorch/issues/5569
class CopiesTheFeatures(Function):
    @staticmethod
    def forward(ctx, features, weight):
        ctx.result = features.clone()
        return ctx.result

    @staticmethod
    def backward(ctx, handed):
        return handed, None


# known: Function.forward.no-tensor-on-ctx https://github.com/pytorch/pytorch/issues/25340
class HoldsItsOutput(Function):
    @staticmethod
    def forward(ctx, values, watchers):
        watchers.append(ctx)
        doubled = values * 2
        ctx.doubled = doubled
        return doubled

    @staticmethod
    def backward(ctx, handed):
        return handed * 2, None


# known: Function.forward.no-tensor-on-ctx https://github.com/asappresearch/sru/pull/171
class RecurrentStates(Function):
    @staticmethod
    def forward(ctx, inputs, weight, bias, start):
        states = inputs.new_zeros(inputs.size(0) + 1, inputs.size(1))
        states[0] = start
        for step in range(inputs.size(0)):
            states[step + 1] = torch.sigmoid(inputs[step] * weight + bias) * states[step]
        ctx.save_for_backward(inputs, weight, bias, start)
        ctx.intermediate = states[1:]
        return states[-1] * 1

    @staticmethod
    def backward(ctx, handed):
        inputs, weight, bias, start = ctx.saved_tensors
        return run_back(inputs, weight, bias, start, ctx.intermediate, handed)


def run_back(inputs, weight, bias, start, states, handed):
    gate = torch.sigmoid(inputs * weight + bias)
    inner = handed * states * gate * (1 - gate)
    return inner * weight, (inner * inputs).sum(0), inner.sum(0), handed * gate.prod(0)


# known: Function.forward.no-tensor-on-ctx https://github.com/dmlc/dgl/pull/1060
# also: Function.backward.repeatable
class ReducesOverEdges(Function):
    @staticmethod
    def forward(ctx, graph, source, target):
        summed = torch.zeros_like(target).index_add(0, graph.edges, source)
        ctx.cache = graph, source.detach(), summed
        return summed * target

    @staticmethod
    def backward(ctx, handed):
        graph, source, summed = ctx.cache
        ctx.cache = None
        return None, handed[graph.edges], handed * summed


# known: Function.backward.repeatable https://github.com/dmlc/dgl/issues/1046
class ClearsItsCache(Function):
    @staticmethod
    def forward(ctx, graph, source):
        ctx.cache = graph, source.shape
        return graph.spread(source)

    @staticmethod
    def backward(ctx, handed):
        graph, shape = ctx.cache
        ctx.cache = None
        return None, graph.collect(handed, shape)


# known: Function.forward.no-tensor-on-ctx https://github.com/RobinBruegger/RevTorch/issues/1
# also: Function.backward.repeatable
class ReversibleChain(Function):
    @staticmethod
    def forward(ctx, values, blocks):
        for block in blocks:
            values = block(values)
        ctx.blocks, ctx.last = blocks, values.detach()
        return values

    @staticmethod
    def backward(ctx, handed):
        last = ctx.last
        del ctx.last
        for block in reversed(ctx.blocks):
            last, handed = block.pull_back(last, handed)
        return handed, None


# known: Function.backward.repeatable docs/data/published.json: revtorch 0.2.4, _ReversibleModuleFunction
class ReversibleOnce(Function):
    @staticmethod
    def forward(ctx, values, blocks):
        ctx.blocks, ctx.state = blocks, blocks.describe(values)
        return blocks(values)

    @staticmethod
    def backward(ctx, handed):
        state = ctx.state
        del ctx.state
        return ctx.blocks.pull_back(state, handed), None


# known: Function.forward.no-tensor-on-ctx docs/data/published.json: torch-geometric 2.8.1, InvertibleFunction
class InvertibleOutputs(Function):
    @staticmethod
    def forward(ctx, run, passes, *inputs):
        with torch.no_grad():
            results = run(*inputs)
        kept = tuple(result.detach_() for result in results)
        ctx.outputs = [kept] * passes
        return kept

    @staticmethod
    def backward(ctx, *handed):
        return (None, None, *ctx.run.pull_back(ctx.outputs.pop(), handed))


# known: Function.forward.no-tensor-on-ctx docs/data/published.json: entmax 1.3, EntmaxBisectFunction
class PowerOrNumber(Function):
    @classmethod
    def forward(cls, ctx, values, power=1.5, steps=50):
        if not isinstance(power, torch.Tensor):
            power = torch.tensor(power, dtype=values.dtype)
        power = power.expand(values.shape)
        ctx.power = power
        result = values.clamp(min=0) ** power
        ctx.save_for_backward(result)
        return result

    @classmethod
    def backward(cls, ctx, handed):
        (result,) = ctx.saved_tensors
        return handed * result ** (2 - ctx.power), None, None


# known: Function.forward.no-tensor-on-ctx docs/data/published.json: pot 0.9.7.post1, ValFunction
class GivenDerivatives(Function):
    @staticmethod
    def forward(ctx, value, derivatives, *inputs):
        ctx.derivatives = derivatives
        return value

    @staticmethod
    def backward(ctx, handed):
        return (None, None) + tuple(each * handed for each in ctx.derivatives)


# known: Function.forward.calls-independent https://github.com/pytorch/pytorch/issues/16947
# also: Function.forward.no-tensor-on-ctx Function.backward.gradient
class StateOnTheInstance(Function):
    def forward(self, values):
        self.slope = values.clone()
        return values * 1

    def backward(self, handed):
        return self.slope


class PowerSaved(Function):
    @staticmethod
    def forward(ctx, values, power=1.5):
        if isinstance(power, torch.Tensor):
            ctx.save_for_backward(values, power)
        else:
            ctx.save_for_backward(values)
            ctx.power = power
        return values**power

    @staticmethod
    def backward(ctx, handed):
        values, *rest = ctx.saved_tensors
        power = rest[0] if rest else ctx.power
        return handed * power * values ** (power - 1), None


class ListOfShapes(Function):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.shapes = []
        for tensor in tensors:
            ctx.shapes.append(tensor.shape)
        ctx.save_for_backward(*tensors)
        return torch.cat([tensor.flatten() for tensor in tensors])

    @staticmethod
    def backward(ctx, handed):
        parts = handed.split([shape.numel() for shape in ctx.shapes])
        return tuple(part.view(shape) for part, shape in zip(parts, ctx.shapes, strict=True))


class ClearsOnlyIfAsked(Function):
    @staticmethod
    def forward(ctx, graph, source, once):
        ctx.cache, ctx.once = (graph, source.shape), once
        return graph.spread(source)

    @staticmethod
    def backward(ctx, handed):
        if ctx.cache is None:
            raise RuntimeError("made for one backward pass")
        graph, shape = ctx.cache
        if ctx.once:
            ctx.cache = None
        return None, graph.collect(handed, shape), None
