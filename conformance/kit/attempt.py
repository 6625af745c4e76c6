"""Run a test body and decide its outcome, whatever it raises. This is the only place that does so."""

from __future__ import annotations

import importlib
import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from traceback import FrameSummary
from typing import Any

from conformance.core.accidents import is_of_the_suite
from conformance.core.errors import UsageError
from conformance.core.outcomes import BAD_SUBJECT, BadSubject, Outcome
from conformance.core.prose import clipped
from conformance.kit.afterwards import try_again
from conformance.kit.answers import processor_time
from conformance.kit.blame import expect_own
from conformance.kit.deviations import Deviation, NotApplicable, RaisedAlone, Skipped, Unfit
from conformance.kit.frames import TORCH_FOLDER, foreign, name_of, text_of
from conformance.kit.search import run_each, run_varied
from conformance.kit.seeds import seed
from conformance.kit.subject import Subject

#: At most this many frames are shown, half from each end.
_FRAMES = 24
#: The file that calls a subject with a sample, and the line by which a replaced method calls the original.
_CALLER, _PASSED_ON = os.path.join("kit", "specs.py"), "original("


@dataclass(frozen=True)
class Attempt:
    """The end of an action: outcome, message, likely cause if known, and seconds."""

    outcome: Outcome | BadSubject
    message: str
    likely: str
    seconds: float


def attempt(action: Callable[[], object]) -> Attempt:
    """Run an action and return how it ended; the message of a pass is the text that the action returned, if any.

    Raises:
        KeyboardInterrupt: the caller's own interrupt is passed on.

    >>> attempt(lambda: 1 / 0).outcome
    'error'
    """
    start = time.perf_counter()
    outcome, message, likely = _ending(action)
    return Attempt(outcome, clipped(message), likely, time.perf_counter() - start)


def _ending(action: Callable[[], object]) -> tuple[Outcome | BadSubject, str, str]:
    try:
        unjudged = action()
    except NotApplicable as error:
        return "not-applicable", text_of(error), ""
    except Skipped as error:
        return "skip", text_of(error), ""
    except RaisedAlone as error:
        return "error", explain(error.error), ""
    except Deviation as error:
        return "fail", text_of(error), error.likely
    except UsageError as error:
        return BAD_SUBJECT, text_of(error), ""
    except Unfit as error:
        return "error", text_of(error), ""
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a Function that calls sys.exit is at fault, and must not end this process
        try:
            return "error", explain(error), ""
        except (Exception, SystemExit):  # no memory is left for a traceback, or the error has none that can be read
            return "error", f"{name_of(error)}: {text_of(error)}", ""
    return "pass", unjudged if isinstance(unjudged, str) else "", ""


def call_body(module: str, function: str, arguments: Iterable[str], offered: Mapping[str, Any]) -> object:
    """Call a test's body with the offered arguments that it accepts, after seeding all generators.

    Returns:
        A text if the test passed without judging some samples; it says which.
    """
    seed(0)
    body = getattr(importlib.import_module(module), function)
    start = processor_time()
    try:
        return _called(body, arguments, offered)
    except Exception as error:
        took = processor_time() - start
        subject = offered.get("subject")
        expect_own(subject, error, offered["world"])
        again = subject and try_again(error, subject, offered["world"], took, partial(_again, body, arguments, offered))
        if again:
            raise NotApplicable(again) from error
        raise


def _again(body: Callable[..., object], arguments: Iterable[str], offered: Mapping[str, Any], subject: Subject) -> None:
    """Call a test's body with another subject and an empty cache."""
    seed(0)
    _called(body, arguments, {**offered, "subject": subject, "world": replace(offered["world"], known={})})


def _called(body: Callable[..., object], arguments: Iterable[str], offered: Mapping[str, Any]) -> object:
    try:
        if "probe" in arguments:
            case = {name: offered[name] for name in arguments if name not in {"probe", "variation"}}
            run = run_varied if "variation" in arguments else run_each
            return run(body, offered["subject"], offered["world"], case)
        return body(**{name: offered[name] for name in arguments})
    except AssertionError as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, Deviation) or last.filename != body.__code__.co_filename:
            raise
        raise Deviation(text_of(error) or f"{last.line}") from None  # a plain assert, in the test itself


def explain(error: BaseException) -> str:
    """Return the type and text of an exception, and the frames of the user's own code.

    Where no frame is theirs, those tell that made the call: the test's own, unless a note says more than that, and
    PyTorch's innermost one. Of what the suite itself raised, those from the test on are shown.
    """
    frames = _without_stand_ins(list(traceback.extract_tb(error.__traceback__)))
    is_unread = isinstance(error, SyntaxError)
    unread = traceback.format_exception_only(error)[:-1] if is_unread else []
    notes = _notes(error)
    own = [frame for frame in frames if not foreign(frame.filename)]
    if not (own or is_unread):
        own = _of_the_call(frames)[-1 if notes else 0 :]
    if len(own) > _FRAMES:
        own = [*own[: _FRAMES // 2], *own[-_FRAMES // 2 :]]
    lines = "".join([*notes, *traceback.format_list(own), *unread]).rstrip()
    return f"{name_of(error)}: {text_of(error)}\n{lines}"


def _notes(error: BaseException) -> list[str]:
    """Return the notes of an exception, added by the subject or by a test."""
    notes = error.__dict__.get("__notes__")
    return [f"{note}\n" for note in notes if type(note) is str] if type(notes) is list else []


def _without_stand_ins(frames: list[FrameSummary]) -> list[FrameSummary]:
    """Return the frames without wrappers that pass a call on to a method, so PyTorch's call is the last."""
    return [each for each in frames if not (is_of_the_suite(each.filename) and _PASSED_ON in (each.line or ""))]


def _of_the_call(frames: list[FrameSummary]) -> list[FrameSummary]:
    """If no frame is the user's, return the test's and the innermost; all from the test on if the test raised."""
    tests = [at for at, frame in enumerate(frames) if os.path.basename(frame.filename).startswith("test_")]
    if not frames or not (frames[-1].filename.startswith(TORCH_FOLDER) or frames[-1].filename.endswith(_CALLER)):
        return frames[tests[0] :] if tests else frames
    return [_unmarked(frame) for frame in (*(frames[at] for at in tests[:1]), frames[-1])]


def _unmarked(frame: FrameSummary) -> FrameSummary:
    """Return the frame without the marks below its line, which explain a line that is not the reader's."""
    return FrameSummary(frame.filename, frame.lineno, frame.name, line=frame.line)
