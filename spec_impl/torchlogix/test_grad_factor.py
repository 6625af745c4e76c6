"""GradFactor: the identity, whose gradient is scaled by a factor on the way back."""

from __future__ import annotations

import re
from typing import Any

import torch
import torch.autograd.forward_ad as fwd

from conformance.kit import NotApplicable, Subject, World, cases, clause, expect, need
from conformance.kit.observation.looks import function_classes
from conformance.kit.observation.witness import witnessing

#: Neutral, nothing, turned round, fractional, large, and an integer.
FACTORS = (1.0, 0.0, -1.0, 0.5, -2.5, 0.001, 1000.0, 3)
COMBINED = "the combined form does not work under torch.vmap: override setup_context"


@clause("GradFactor.forward.identity")
@cases(dtype=["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_values_are_kept(subject: Subject, world: World, dtype: str) -> None:
    """The result has the values, shape and dtype of x, whatever the factor: 0-d, empty, of many dimensions."""
    for shape in ((), (5,), (0,), (2, 0, 3), (2, 3), (1, 2, 1, 3, 2)):
        x = world.tensor(0, shape, getattr(torch, dtype), "x")
        for f in (0.5, -2.0):
            expect.equal(subject(x.clone(), f), x, f"result for a {dtype} x of shape {shape} and f={f}")


@clause("GradFactor.forward.identity")
def test_special_values_are_kept(subject: Subject) -> None:
    """Infinities, NaN and the smallest numbers come back as they are, a factor of zero included."""
    x = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, 1e-320, 1e308], dtype=torch.float64)
    for f in (0.0, 1.0, -3.0, 1e6):
        expect.equal(subject(x.clone(), f), x, f"result for f={f}")


@clause("GradFactor.forward.identity")
@cases(layout=["transposed", "permuted", "channels last"])
def test_strides_are_kept(subject: Subject, world: World, layout: str) -> None:
    """The result has the strides of x."""
    x = world.tensor(0, (2, 3, 4, 5), torch.float64, "strides")
    laid_out = {
        "transposed": x.transpose(0, 3),
        "permuted": x.permute(2, 0, 3, 1),
        "channels last": x.contiguous(memory_format=torch.channels_last),
    }[layout]
    y = subject(laid_out, 0.5)
    expect.equal(y, laid_out, f"result for a {layout} x")
    expect.equal(y.stride(), laid_out.stride(), f"strides of the result for a {layout} x")


@clause("GradFactor.forward.identity")
@cases(layout=["every other column", "expanded", "offset"])
def test_any_layout_keeps_its_values(subject: Subject, world: World, layout: str) -> None:
    """A sliced, expanded or offset x has its values in the result."""
    x = world.tensor(0, (4, 6), torch.float32, "layout")
    laid_out = {"every other column": x[:, ::2], "expanded": x[:, :1].expand(4, 6), "offset": x[2:]}[layout]
    expect.equal(subject(laid_out, 2.0), laid_out, f"result for an x: {layout}")


@clause("GradFactor.backward.scaled")
@cases(dtype=["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_gradient_is_scaled(subject: Subject, world: World, dtype: str) -> None:
    """The gradient of x is the gradient of the result times f, in the dtype of x."""
    for shape in ((2, 3), (), (0,)):
        for f in FACTORS:
            what = f"gradient of a {dtype} x of shape {shape} for f={f}"
            gradient, weight = _gradient(subject, world, shape, getattr(torch, dtype), f)
            expect.that(gradient is not None, what, "None", "a tensor")
            expect.that(gradient.dtype == weight.dtype, f"dtype of the {what}", gradient.dtype, weight.dtype)
            expect.close(gradient, weight * f, what, alternatives=_mistakes(weight, f))


def _gradient(
    subject: Subject, world: World, shape: tuple[int, ...], dtype: torch.dtype, f: float
) -> tuple[Any, torch.Tensor]:
    x = world.tensor(0, shape, dtype, "x").requires_grad_()
    weight = world.tensor(0, shape, dtype, "weight")
    (gradient,) = torch.autograd.grad(subject(x, f), x, weight.clone(), allow_unused=True)
    return gradient, weight


def _mistakes(weight: torch.Tensor, f: float) -> dict[str, torch.Tensor]:
    mistakes = {"the factor was ignored": weight}
    if f != 0:
        mistakes["divided by the factor"] = weight / f
    mistakes |= {"the size of the factor without its sign": weight * abs(f), "squared factor": weight * f * f}
    mistakes |= {"the factor taken to be between 0 and 1": weight * min(max(f, 0), 1)}
    return {what: wrong for what, wrong in mistakes.items() if not torch.equal(wrong, weight * f)}


@clause("GradFactor.backward.scaled")
def test_every_call_has_its_own_factor(subject: Subject, world: World) -> None:
    """Two calls with different factors each scale by their own, also one after the other in one graph."""
    x = world.tensor(0, (4,), torch.float64, "x").requires_grad_()
    weight = world.tensor(0, (4,), torch.float64, "weight")
    first, second = subject(x, 2.0), subject(x, -0.25)
    chained = subject(subject(x, 3.0), 0.5)
    for y, f in ((first, 2.0), (second, -0.25), (chained, 1.5)):
        (gradient,) = torch.autograd.grad(y, x, weight.clone())
        expect.close(gradient, weight * f, f"gradient through a factor of {f}, among other calls")


@clause("GradFactor.backward.scaled")
def test_any_incoming_gradient_is_scaled(subject: Subject, world: World) -> None:
    """A transposed gradient, and one from the middle of a model, is scaled alike."""
    x = world.tensor(0, (3, 3), torch.float64, "x").requires_grad_()
    weight = world.tensor(0, (3, 3), torch.float64, "weight")
    (turned,) = torch.autograd.grad((subject(x, 0.5).t() * weight).sum(), x)
    (inner,) = torch.autograd.grad((subject(x * x, 0.5) * weight).sum(), x)
    expect.close(turned, 0.5 * weight.t(), "gradient through a transposition, for f=0.5")
    expect.close(inner, weight * x.detach(), "gradient of a square before it, for f=0.5")


@clause("GradFactor.backward.none-for-f")
@cases(f=[0.5, 2, 1.0])
def test_none_for_the_factor(subject: Subject, world: World, f: float) -> None:
    """Backward returns None for f, at any position among the inputs."""
    x = world.tensor(0, (3,), torch.float64, "x").requires_grad_()
    error = None
    with witnessing(*function_classes(subject, lambda: subject(x, f))) as witness:
        try:
            subject(x, f).backward(torch.ones(3, dtype=torch.float64, device=world.device))
        except RuntimeError as raised:  # PyTorch refuses most of it: what was returned says it better
            error = raised
    returned = witness.returned_for(f)
    for value in returned:
        expect.that(value is None, "what backward returns for f", value, "None")
    if error is not None:
        raise error
    need(returned, "no call reached a backward that receives f unchanged")


@clause("GradFactor.backward.twice")
@cases(f=[0.5, -3.0, 0.0])
def test_second_derivative_is_scaled_again(subject: Subject, world: World, f: float) -> None:
    """In the gradient of a gradient each passage scales by f: the second derivative of y squared is 2 f f."""
    x = world.tensor(0, (4,), torch.float64, "x").requires_grad_()
    weight = world.tensor(0, (4,), torch.float64, "weight")
    y = subject(x, f)
    (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    second = _again(first, weight, x)
    expect.close(first.detach(), 2 * f * y.detach(), f"gradient of y squared for f={f}")
    expect.close(second, 2 * f * f * weight, f"second derivative of y squared for f={f}", alternatives={
        "scaled once only": 2 * f * weight
    })  # fmt: skip


@clause("GradFactor.backward.twice")
def test_gradient_of_the_incoming_gradient_is_scaled(subject: Subject, world: World) -> None:
    """The gradient is f times the incoming one, and so is the derivative of the one with respect to the other."""
    x = world.tensor(0, (4,), torch.float64, "x").requires_grad_()
    incoming = world.tensor(0, (4,), torch.float64, "incoming").requires_grad_()
    weight = world.tensor(0, (4,), torch.float64, "weight")
    (first,) = torch.autograd.grad(subject(x, -2.0), x, incoming, create_graph=True)
    second = _again(first, weight, incoming)
    expect.close(second, -2.0 * weight, "derivative with respect to the incoming gradient, for f=-2")


def _again(first: torch.Tensor, weight: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    if not first.requires_grad:
        return torch.zeros_like(leaf)
    try:
        # By backward, not torch.autograd.grad: that would go round the node which refuses.
        first.backward(weight.clone())
    except RuntimeError as error:
        if "once_differentiable" in str(error):
            raise NotApplicable("differentiating it twice raises an error") from None
        raise
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


@clause("GradFactor.jvp.scaled")
@cases(dtype=["float32", "float64", "complex128"], f=[0.5, -2.0, 0.0, 1000.0])
def test_tangent_is_scaled(subject: Subject, world: World, dtype: str, f: float) -> None:
    """The tangent of the result is the tangent of x times f."""
    need(subject.defines("jvp"), "the class defines no jvp")
    x = world.tensor(0, (2, 3), getattr(torch, dtype), "x")
    direction = world.tensor(0, (2, 3), getattr(torch, dtype), "direction")
    with fwd.dual_level():
        tangent = fwd.unpack_dual(subject(fwd.make_dual(x.clone(), direction.clone()), f)).tangent
    expect.that(tangent is not None, f"tangent of the result for f={f}", "None", "a tensor")
    expect.close(tangent, direction * f, f"tangent for f={f}", alternatives=_mistakes(direction, f))


@clause("GradFactor.vmap.batched")
@cases(dim=[0, 1, 2], f=[0.5, -2.0])
def test_batch_is_scaled_sample_by_sample(subject: Subject, world: World, dim: int, f: float) -> None:
    """Under vmap the values are kept, and gradients and tangents scaled, wherever the samples are."""
    need(subject.separate, COMBINED)
    need(subject.defines("vmap") or subject.generates_vmap, "it has neither vmap nor generate_vmap_rule")
    x = world.tensor(0, (2, 3, 4), torch.float64, "x")
    weight = world.tensor(0, (2, 3, 4), torch.float64, "weight")

    def differentiated(sample: torch.Tensor, cotangent: torch.Tensor) -> Any:
        y, pull = torch.func.vjp(lambda x: subject(x, f), sample)[:2]
        return y, pull(cotangent)[0]

    values, gradient = torch.vmap(differentiated, in_dims=dim, out_dims=dim)(x.clone(), weight.clone())
    plain = torch.vmap(lambda sample: subject(sample, f), in_dims=dim, out_dims=dim)(x.clone())
    expect.equal(plain, x, f"values under vmap over dimension {dim}")
    expect.equal(values, x, f"values under vmap over vjp, dimension {dim}")
    expect.close(gradient, weight * f, f"gradients under vmap over dimension {dim}, for f={f}")


@clause("GradFactor.vmap.batched")
@cases(dim=[0, 1])
def test_tangents_of_a_batch_are_scaled(subject: Subject, world: World, dim: int) -> None:
    """Under vmap over jvp the tangents are scaled."""
    need(subject.separate, COMBINED)
    need(subject.defines("vmap") or subject.generates_vmap, "it has neither vmap nor generate_vmap_rule")
    need(subject.defines("jvp"), "the class defines no jvp")
    x = world.tensor(0, (2, 3), torch.float64, "x")
    direction = world.tensor(0, (2, 3), torch.float64, "direction")

    def pushed(sample: torch.Tensor, tangent: torch.Tensor) -> Any:
        return torch.func.jvp(lambda x: subject(x, 0.5), (sample,), (tangent,))[1]

    actual = torch.vmap(pushed, in_dims=dim, out_dims=dim)(x.clone(), direction.clone())
    expect.close(actual, 0.5 * direction, f"tangents under vmap over dimension {dim}, for f=0.5")


@clause("GradFactor.vmap.mapped-factor")
@cases(samples=[1, 3], inside=[True, False])
def test_a_factor_for_each_sample(subject: Subject, world: World, samples: int, inside: bool) -> None:
    """Under vmap a factor for each sample scales that sample, or an error says that it cannot be mapped."""
    need(subject.separate, COMBINED)
    need(subject.defines("vmap") or subject.generates_vmap, "it has neither vmap nor generate_vmap_rule")
    x, weight = (world.tensor(0, (samples, 2), torch.float64, key) for key in ("x", "weight"))
    factors = torch.arange(samples, dtype=torch.float64, device=world.device) - 2.5

    def pulled(x: torch.Tensor, f: torch.Tensor, cotangent: torch.Tensor, call: Any = subject) -> Any:
        return torch.func.vjp(lambda x: call(x, f), x)[1](cotangent)[0]

    what = f"factors for {samples} samples under vmap"
    try:
        actual = torch.vmap(pulled)(x, factors, weight) if inside else pulled(x, factors, weight, torch.vmap(subject))
    except Exception as error:
        clear = re.search(r"factor|\bf\b|mapped|in_dims|vmap", str(error))
        # A generated rule refuses in PyTorch's own words.
        expect.that(
            clear or subject.generates_vmap,
            what,
            f"{type(error).__name__}: {error}",
            "an error that says that f cannot be mapped",
        )
        return
    first = {"the first sample's factor for all": weight * factors[0]}
    expect.close(actual, weight * factors[:, None], f"gradient with {what}", alternatives=first)
