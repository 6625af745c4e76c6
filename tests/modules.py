"""The source of a module with a Function and inputs, for commands that import it from a folder of their own."""

from __future__ import annotations

from textwrap import indent

SOURCE = """\
import torch


class {name}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
{forward}

    @staticmethod
    def backward(ctx, grad):
{backward}


def inputs():
    yield (torch.ones(3, dtype=torch.float64, requires_grad=True),)
"""


def module(name: str = "Twice", forward: str = "return x * 2", backward: str = "return grad * 2") -> str:
    """A module with one class, and the bodies of its methods."""
    bodies = {"forward": indent(forward, " " * 8), "backward": indent(backward, " " * 8)}
    return SOURCE.format(name=name, **bodies)
