"""Two members where there may be one, and save_for_backward at the wrong time."""

import torch


class BothVmapRules(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def vmap(info, in_dims, x):  # expect: Function.vmap.not-both certain
        return x.clone(), in_dims[0]


class BothDerivatives(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output

    vjp = backward  # expect: Function.backward.vjp-alias certain


class SavesTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        ctx.save_for_backward(y)  # expect: Function.save_for_backward.once certain
        return x * y


class SavesTwiceSometimes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        if x.is_floating_point():
            ctx.save_for_backward(x)
        ctx.save_for_backward(y)  # expect: Function.save_for_backward.once likely
        return x * y


class SavesInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        ctx.save_for_backward(grad_output)  # expect: Function.save_for_backward.where certain
        return grad_output
