"""Whose a frame of a traceback is: the subject's own, or one of torch, of the suite or of Python's import."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Iterable

import torch

TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
#: The folder of the suite; where a script carries its sources, what their names begin with.
SUITE = (lambda: None).__code__.co_filename.rpartition("kit")[0]


def foreign(file: str) -> bool:
    """Whether a frame of this file tells an author nothing about their own code.

    >>> foreign(torch.nn.__file__), foreign("layers.py")
    (True, False)
    """
    return _of_an_import(file) or file.startswith(SUITE) or os.path.abspath(file).startswith((SUITE, TORCH))


def place_of(error: BaseException) -> str:
    """The last line of the user's own that an exception came through: file, line, function; empty where there is none.

    >>> place_of(ValueError("never raised"))
    ''
    """
    return last_own(traceback.extract_tb(error.__traceback__))


def last_own(frames: Iterable[traceback.FrameSummary]) -> str:
    """The last of some frames that is the user's own: file, line, function; empty where there is none."""
    own = [frame for frame in frames if not foreign(frame.filename)]
    return f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}, in {own[-1].name}" if own else ""


def _of_an_import(file: str) -> bool:
    """Whether it is one of those between an import and the module's first line, which Python leaves out as well."""
    return file.startswith("<frozen importlib.") or file == importlib.__file__
