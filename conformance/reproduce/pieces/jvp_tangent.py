"""Function.jvp.tangent: tangents against differences of forward."""

from __future__ import annotations

import torch
from torch.autograd.gradcheck import GradcheckError

from conformance.reproduce.pieces.calls import call, fresh
from conformance.reproduce.pieces.ending import finish
from conformance.reproduce.pieces.subject import samples


def check() -> bool:
    """Compare for every sample."""
    wrong = False
    for args in samples():
        try:
            torch.autograd.gradcheck(call, fresh(args), check_forward_ad=True, check_backward_ad=False)
        except (GradcheckError, RuntimeError) as error:
            print(error)
            wrong = True
    return wrong


if __name__ == "__main__":
    finish(check)
