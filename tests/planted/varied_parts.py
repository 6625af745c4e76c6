"""Bugs that show if only some outputs are used, or only some inputs need a gradient."""

from __future__ import annotations

from tests.correct import varied_parts as right
from tests.samples import of_shapes

SPEC = "Function"

inputs = of_shapes((3, 4))


class OneOrAllOfThree(right.ThreeParts):
    """Drops the second of two incoming gradients; handles one and three.

    Breaks: Function.backward.unused-output
    """

    @staticmethod
    def backward(ctx, *grads):
        found = [
            grad * slope for grad, slope in zip(grads, right.ThreeParts.slopes(ctx), strict=True) if grad is not None
        ]
        if not found:
            return None
        return sum(found) if len(found) == 3 else found[0]


class NothingForTheMiddle(right.ThreeParts):
    """Treats the last gradient as the middle one if that is missing.

    Breaks: Function.backward.unused-output
    """

    @staticmethod
    def backward(ctx, first, middle, last):
        if first is not None and last is not None and middle is None:
            middle, last = last, None
        return right.ThreeParts.backward(ctx, first, middle, last)


class WeightsOfAQuotientAlone(right.ProductAndQuotient):
    """Returns no gradient for the second input if it alone needs one and only the second output is used.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    inputs = right.ProductAndQuotient.inputs

    @staticmethod
    def backward(ctx, of_product, of_quotient):
        if of_product is None and not ctx.needs_input_grad[0]:
            return None, None
        return right.ProductAndQuotient.backward(ctx, of_product, of_quotient)


class NumeratorOfAProductAlone(right.ProductAndQuotient):
    """Returns the gradient of a quotient for that of a product, if only the first input needs one.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    inputs = right.ProductAndQuotient.inputs

    @staticmethod
    def backward(ctx, of_product, of_quotient):
        if of_quotient is None and not ctx.needs_input_grad[1]:
            of_product, of_quotient = None, of_product
        return right.ProductAndQuotient.backward(ctx, of_product, of_quotient)


class TwoOfThreeFactors(right.ThreeFactors):
    """Multiplies by the wrong factor if the second of three inputs needs no gradient.

    Breaks: Function.backward.needs-input-grad-honoured
    """

    inputs = right.ThreeFactors.inputs

    @staticmethod
    def backward(ctx, grad):
        x, y, z = ctx.saved_tensors
        of_x, of_y, of_z = ctx.needs_input_grad
        shared = grad * y if of_x and of_z and not of_y else grad * z
        return shared * y if of_x else None, shared * x if of_y else None, grad * x * y if of_z else None
