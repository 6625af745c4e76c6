"""Run a test body and say how it ended, whatever it raises: the one place where that is decided."""

from __future__ import annotations

import importlib
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from conformance.core.errors import UsageError
from conformance.core.outcomes import clipped
from conformance.kit.deviations import Deviation, NotApplicable, Skipped
from conformance.kit.frames import foreign, of_torch
from conformance.kit.seeds import seed

#: What PyTorch says before the words of an assertion of its own: the condition, its place, and a plea for a report.
_ASSERTION = re.compile(r"^.* INTERNAL ASSERT FAILED at .*?, please report a bug to PyTorch\. ")
#: So many frames are shown at most, half from each end.
_FRAMES = 24


@dataclass(frozen=True)
class Attempt:
    """How an action ended: the outcome's word, a message, the likely cause where one is known, and how long it took."""

    outcome: str
    message: str
    likely: str
    seconds: float


def attempt(action: Callable[[], object]) -> Attempt:
    """Run something and say how it ended.

    Raises:
        KeyboardInterrupt: the caller's own interrupt is passed on.

    >>> attempt(lambda: 1 / 0).outcome
    'error'
    """
    start = time.perf_counter()
    outcome, message, likely = _ending(action)
    return Attempt(outcome, clipped(message), likely, time.perf_counter() - start)


def _ending(action: Callable[[], object]) -> tuple[str, str, str]:
    try:
        action()
    except NotApplicable as error:
        return "not-applicable", text_of(error), ""
    except Skipped as error:
        return "skip", text_of(error), ""
    except Deviation as error:
        return "fail", text_of(error), error.likely
    except UsageError as error:
        return "bad-subject", text_of(error), ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a Function that calls sys.exit is at fault, and ends nobody else
        try:
            return "error", explain(error), ""
        except (Exception, SystemExit):  # no memory is left for a traceback, or the error has none that can be read
            return "error", f"{name_of(error)}: {text_of(error)}", ""
    return "pass", "", ""


def call_body(module: str, function: str, arguments: Iterable[str], offered: Mapping[str, object]) -> None:
    """Call a test's body with those of the offered arguments that it takes, from a known state of all generators."""
    seed(0)
    getattr(importlib.import_module(module), function)(**{name: offered[name] for name in arguments})


def text_of(error: BaseException) -> str:
    """An exception's text, even where its ``__str__`` raises or gives a string with ideas of its own.

    Of an assertion inside PyTorch only what it says.
    """
    try:
        return _ASSERTION.sub("an assertion inside PyTorch failed: ", str.__str__(str(error)), count=1)
    except BaseException as inner:
        return f"<{name_of(error)}, whose __str__ raised {name_of(inner)}>"


def name_of(error: BaseException) -> str:
    """The name of an exception's class, whatever its metaclass makes of such a question."""
    return str(type.__dict__["__name__"].__get__(type(error)))


def explain(error: BaseException) -> str:
    """Type and text of an exception, and the frames of the user's own code.

    Where there are none, PyTorch refused something, such as what backward returned, and no frame says more than its
    text; but all frames of an error that the suite itself raised.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not foreign(frame.filename)]
    if not own and not (frames and of_torch(frames[-1].filename)):
        own = list(frames)
    if not own:
        return f"{name_of(error)}: {text_of(error)}"
    if len(own) > _FRAMES:
        own = [*own[: _FRAMES // 2], *own[-_FRAMES // 2 :]]
    lines = "".join(traceback.format_list(own)).rstrip()
    return f"{name_of(error)}: {text_of(error)}\n{lines}"
