"""Whose a frame of a traceback is: the subject's own, or one of torch or of the suite."""

from __future__ import annotations

import os

import torch

TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
#: The folder of the suite; where a script carries its sources, what their names begin with.
SUITE = (lambda: None).__code__.co_filename.rpartition("kit")[0]


def foreign(file: str) -> bool:
    """Whether a frame of this file tells an author nothing about their own code.

    >>> foreign(torch.nn.__file__), foreign("layers.py")
    (True, False)
    """
    return file.startswith(SUITE) or os.path.abspath(file).startswith((SUITE, TORCH))


def of_torch(file: str) -> bool:
    """Whether a frame of this file is one of PyTorch's own.

    >>> of_torch(torch.nn.__file__)
    True
    """
    return os.path.abspath(file).startswith(TORCH)
