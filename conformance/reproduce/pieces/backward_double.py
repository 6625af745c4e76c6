"""Function.backward.double: second derivatives against differences of the first."""

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
            torch.autograd.gradgradcheck(call, fresh(args))
        except GradcheckError as error:
            print(error)
            wrong = True
        except RuntimeError as error:
            print(f"differentiating twice raises an error, which is allowed: {error}")
    return wrong


if __name__ == "__main__":
    finish(check)
