"""Read an exception's text, and tell whose its frames are: the subject's, torch's, the suite's or an import's."""

from __future__ import annotations

import functools
import importlib
import os
import re
import traceback
from collections.abc import Iterable

import torch

from conformance.core.accidents import is_of_pytorch, is_of_the_suite

TORCH_FOLDER = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep

#: What PyTorch prints before the message of its own assertion: the condition, the place, and a request for a report.
_ASSERTION = re.compile(r"^.* INTERNAL ASSERT FAILED at .*?, please report a bug to PyTorch\. ")


#: What PyTorch's operations say of shapes that do not fit.
_MISFIT = re.compile(
    r"\b(?:must match|size mismatch|cannot be multiplied|invalid for input of size|Expected a tensor of dimension"
    r"|number of sizes provided|Expected size for|Expected shape of|Incompatible shapes|to match the calculated"
    r"|to have \d+ channels|the same number of elements|to be equal size|to be no larger|to sum exactly"
    r"|should be equal to|does not broadcast)\b"
)


@functools.lru_cache(1024)
def foreign(file: str) -> bool:
    """Whether a frame of this file tells an author nothing about their own code; asked of every frame of every stack.

    >>> foreign(torch.nn.__file__), foreign("layers.py")
    (True, False)
    """
    whole = os.path.abspath(file)
    is_of_torch = whole.startswith(TORCH_FOLDER) or is_of_pytorch(whole)
    return _of_an_import(file) or is_of_the_suite(file) or is_of_the_suite(whole) or is_of_torch


def place_of(error: BaseException) -> str:
    """Return the last line of the user's code in a traceback: file, line, function; empty if there is none."""
    return last_own(traceback.extract_tb(error.__traceback__))


def text_of(error: BaseException) -> str:
    """Return an exception's text, even if its ``__str__`` raises or returns a str subclass.

    For an assertion inside PyTorch, only its message.
    """
    try:
        return _ASSERTION.sub("an assertion inside PyTorch failed: ", str.__str__(str(error)), count=1)
    except BaseException as inner:
        return f"<{name_of(error)}, whose __str__ raised {name_of(inner)}>"


def name_of(error: BaseException) -> str:
    """Return the name of an exception's class, even if its metaclass raises."""
    return str(type.__dict__["__name__"].__get__(type(error)))


def told(error: BaseException) -> str:
    """An exception as a message names it: its type, its text, and the last line of the user's own.

    >>> told(ValueError("never raised"))
    'ValueError: never raised'
    """
    place = place_of(error)
    return f"{name_of(error)}: {text_of(error)}{place and f' (at {place})'}"


def is_mistake_of_the_suite(error: BaseException) -> bool:
    """Whether a line of the suite itself made a mistake that cannot be the subject's, such as a NameError."""
    if not issubclass(type(error), NameError | AttributeError | KeyError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and is_of_the_suite(frames[-1].filename)


def raise_mistake_of_the_suite(error: Exception) -> None:
    """Raise an exception again if it is a mistake of the suite: the caller would take it for a refusal."""
    if is_mistake_of_the_suite(error):
        raise error


def is_misfit(error: BaseException) -> bool:
    """Whether a tensor operation raised for shapes that do not fit, which is not a deliberate refusal."""
    frames = traceback.extract_tb(error.__traceback__)
    on_purpose = not frames or (frames[-1].line or "").startswith("raise")
    return type(error) is RuntimeError and not on_purpose and bool(_MISFIT.search(text_of(error)))


def last_own(frames: Iterable[traceback.FrameSummary]) -> str:
    """Return the last of some frames that is the user's own: file, line, function; empty if there is none."""
    own = [frame for frame in frames if not foreign(frame.filename)]
    return f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}, in {own[-1].name}" if own else ""


def _of_an_import(file: str) -> bool:
    """Whether it is one of those between an import and the module's first line, which Python leaves out as well."""
    return file.startswith("<frozen importlib.") or file == importlib.__file__
