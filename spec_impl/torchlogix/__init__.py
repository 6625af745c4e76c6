"""Return a tensor unchanged and scale its gradient.

Source document: the page of ``torchlogix.functional.GradFactor`` (L).
"""

from __future__ import annotations

from typing import Any

import torch

SPEC = "GradFactor"
DOCUMENTS = {"L": ("torchlogix: GradFactor", "")}


class GradFactor(torch.autograd.Function):
    """Return ``x`` unchanged; multiply its gradient by ``f`` in backward.

    Its gradient is not the derivative of the identity, on purpose: ``f`` sets how strongly earlier layers learn
    from later ones. 0 stops the gradient; a negative number reverses it.

    This is the combined form. :class:`GradFactorSeparate` is the one for :mod:`torch.func`.

    Example:
        >>> import torch
        >>> from spec_impl.torchlogix import GradFactor
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> y = GradFactor.apply(x, 0.5)
        >>> y.detach()
        tensor([1., 2.])
        >>> y.sum().backward()
        >>> x.grad
        tensor([0.5000, 0.5000])
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, f: float | torch.Tensor) -> torch.Tensor:
        """Return ``x``.

        Args:
            ctx: The context of this call.
            x: Any shape, dtype and strides.
            f: The factor: a number, or a 0-d tensor whose value is read once, during the call.

        Returns:
            A new tensor that shares the memory of ``x``. It is not a view, because the tangent of a view would
            have to be that of ``x``. Changing it in place changes ``x``, and autograd's check of saved tensors
            notices that.

        .. clause:: GradFactor.forward.identity
           :level: must
           :sources: C torchlogix 0.1.1 torchlogix/functional.py:163

           The result equals ``x``: the same values, shape, dtype and strides.
        """
        ctx.f = _number(f)
        return x.detach()

    @staticmethod
    def backward(ctx: Any, grad_y: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Scale the gradient.

        Args:
            ctx: The context of the call.
            grad_y: The gradient of the result.

        Returns:
            ``grad_y * f``, and None.

        .. clause:: GradFactor.backward.scaled
           :level: must
           :sources: C torchlogix 0.1.1 torchlogix/functional.py:167

           The gradient of ``x`` is the incoming gradient times ``f``, in the dtype of ``x``. This holds for every
           floating and complex dtype, and for every ``f``: negative, zero, one, a fraction or large.

        .. clause:: GradFactor.backward.none-for-f
           :level: must
           :sources: L "you can just pass None as a gradient", C torchlogix 0.1.1 torchlogix/functional.py:167

           backward returns None for ``f``.

        .. clause:: GradFactor.backward.twice
           :level: quality
           :sources: ours

           The gradient of a gradient is right: each differentiation multiplies by ``f`` once more.
        """
        return grad_y * ctx.f if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """Scale the tangent.

        Args:
            ctx: The context of the call.
            tangent: The tangent of ``x``.

        Returns:
            ``tangent * f``: forward mode agrees with backward.

        .. clause:: GradFactor.jvp.scaled
           :level: must
           :sources: L "with forward mode automatic differentiation", ours

           The tangent of the result is the tangent of ``x`` times ``f``.
        """
        return tangent * ctx.f


class GradFactorSeparate(torch.autograd.Function):
    """:class:`GradFactor` in the separate form, for :func:`torch.vmap` and the other transforms.

    Example:
        >>> import torch
        >>> from spec_impl.torchlogix import GradFactorSeparate
        >>> torch.func.grad(lambda x: GradFactorSeparate.apply(x, -1.0))(torch.tensor(3.0))
        tensor(-1.)
    """

    @staticmethod
    def forward(x: torch.Tensor, f: float | torch.Tensor) -> torch.Tensor:
        """As in the combined form."""
        return x.detach()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        """Store the factor on ctx as a number."""
        _, f = inputs
        ctx.f = _number(f)

    @staticmethod
    def backward(ctx: Any, grad_y: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """As in the combined form."""
        return grad_y * ctx.f if ctx.needs_input_grad[0] else None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        """As in the combined form."""
        return tangent * ctx.f

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: torch.Tensor, f: float | torch.Tensor
    ) -> tuple[torch.Tensor, int | None]:
        """Run on all samples at once; any shape will do.

        Args:
            info: Not needed.
            in_dims: The dimension of ``x`` that counts the samples.
            x: All samples.
            f: The factor, the same for all samples.

        Returns:
            The result, with its samples along the same dimension.

        Raises:
            ValueError: ``f`` differs from sample to sample.

        .. clause:: GradFactor.vmap.batched
           :level: must
           :sources: L "underneath torch.vmap()", X Extending torch.func, ours

           torch.vmap over any dimension of ``x`` equals calling it sample by sample, gradients and tangents
           included.

        .. clause:: GradFactor.vmap.mapped-factor
           :level: quality
           :sources: ours

           If ``f`` differs from sample to sample, each sample is scaled by its own factor, or an error says that
           ``f`` cannot be mapped.
        """
        if in_dims[1] is not None:
            raise ValueError("GradFactor takes one factor for all samples: f cannot be mapped")
        return GradFactorSeparate.apply(x, f), in_dims[0]


def _number(f: float | torch.Tensor) -> float:
    """Return ``f`` as a number: tensors do not belong on ctx, and changing ``f`` after the call must have no effect."""
    return f.item() if isinstance(f, torch.Tensor) else f
