"""What a run is asked for, checked before anything starts; complaints say what would be right."""

from __future__ import annotations

import re
from dataclasses import dataclass

from conformance.core.errors import UsageError
from conformance.core.plan import DEFAULT_RANKS, check_reference

BACKENDS = ("gloo", "nccl")
MOST_RANKS = 4096


@dataclass(frozen=True)
class Options:
    """A run, as asked for."""

    subjects: tuple[str, ...] = ()
    spec: str | None = None
    inputs: str | None = None
    ranks: tuple[int, ...] = DEFAULT_RANKS
    backend: str = "gloo"
    device: str = "cpu"
    timeout: float = 30.0
    setup: tuple[str, ...] = ()


def parse_ranks(text: str) -> tuple[int, ...]:
    """World sizes from a list of numbers.

    >>> parse_ranks("1,2,4")
    (1, 2, 4)
    """
    numbers = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,4}", number) and 1 <= int(number) <= MOST_RANKS for number in numbers):
        raise UsageError(
            f"--ranks {text!r}: give world sizes from 1 to {MOST_RANKS} with commas between, for example 1,2,4"
        )
    return tuple(sorted({int(number) for number in numbers}))


def parse_timeout(text: str) -> float:
    """Seconds from a text.

    >>> parse_timeout("2.5")
    2.5
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise UsageError(f"--timeout {text!r}: give a number of seconds above 0 and at most 86400")
    return seconds


def checked(options: Options, specs: tuple[str, ...]) -> Options:
    """The same options, once every name in them reads as it should.

    Raises:
        UsageError: with one line.
    """
    if options.spec is not None and options.spec not in specs:
        raise UsageError(f"--spec {options.spec!r}: no such spec; there are {', '.join(specs)}")
    if options.backend not in BACKENDS:
        raise UsageError(f"--backend {options.backend!r}: give gloo or nccl")
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", options.device):
        raise UsageError(f"--device {options.device!r}: give cpu, cuda or cuda:N")
    for reference in (*options.subjects, *options.setup, *([options.inputs] if options.inputs else [])):
        try:
            check_reference(reference)
        except UsageError as error:
            raise UsageError(str(error)) from None
    if options.inputs and not options.subjects:
        raise UsageError("--inputs needs a subject to be the inputs of; give one as module:attribute")
    return options
