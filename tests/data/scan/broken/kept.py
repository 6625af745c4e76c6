"""Tensors on ctx."""

import torch
from torch import nn
from torch.autograd import Function


class AnInputThatIsSavedToo(Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.weight = weight  # expect: Function.forward.no-tensor-on-ctx certain
        return x * weight


class AResult(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = torch.where(x > 0, 1.0, 0.0)  # expect: Function.forward.no-tensor-on-ctx certain
        return x * ctx.mask


class AnAnnotatedInput(Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, bias: torch.Tensor | None):
        ctx.bias = bias  # expect: Function.forward.no-tensor-on-ctx likely
        return nn.functional.relu(x)


class InATuple(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.exp(x)
        ctx.kept = (y, x.shape)  # expect: Function.forward.no-tensor-on-ctx certain
        return y


class InADictionary(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = {"scale": torch.ones(3)}  # expect: Function.forward.no-tensor-on-ctx certain
        return x.clone()


class TheOutput(Function):
    @staticmethod
    def forward(x):
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.output = output  # expect: Function.forward.no-tensor-on-ctx certain


class AnInputBySetupContext(Function):
    @staticmethod
    def forward(x, scale):
        return torch.mul(x, scale)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale = inputs
        ctx.x, ctx.scale = x, scale  # expect: Function.forward.no-tensor-on-ctx likely


class UsedAsATensor(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x  # expect: Function.forward.no-tensor-on-ctx likely
        return x.unsqueeze(0).contiguous()


class InAMixedDictionary(Function):
    @staticmethod
    def forward(ctx, x, names):
        kept = {"count": 3, names[0]: 4}
        kept.update(scale=torch.ones(3))
        kept["size"] = x.shape
        ctx.kept = {"more": True, **kept}  # expect: Function.forward.no-tensor-on-ctx certain
        return x.clone()


class UsedInAChain(Function):
    @staticmethod
    def forward(ctx, x, y, z, w, v):
        ctx.x, ctx.y = x, y  # expect: Function.forward.no-tensor-on-ctx likely
        ctx.z, ctx.v = z, v  # expect: Function.forward.no-tensor-on-ctx likely
        ctx.w = w  # expect: Function.forward.no-tensor-on-ctx likely
        product = torch.einsum("i,i->", v, w)
        return x.float().detach() * y.split(2, dim=1)[0] + torch.pow(z, 2) + product


class SaidToBeATensor(Function):
    @staticmethod
    def forward(ctx, *args):
        weight: torch.Tensor = args[1]
        ctx.weight = weight  # expect: Function.forward.no-tensor-on-ctx likely
        return args[0] * weight
