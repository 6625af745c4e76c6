import torch
import torch.autograd as ag
from torch import autograd
from torch.autograd import Function as Fn
from torch.autograd.function import InplaceFunction, once_differentiable

from .compat import Function


class ByFullName(torch.autograd.Function):
    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        return grad_output


class ByModuleAlias(ag.Function): ...


class ByModule(autograd.Function): ...


class Renamed(Fn): ...


class InPlace(InplaceFunction): ...


class PassedOn(Function): ...


class Mixin: ...


class WithMixin(Mixin, torch.autograd.function.Function): ...


class NoFunction(Mixin): ...


Base = torch.autograd.Function


class Assigned(Base): ...
