"""The options of a run, each written once: the command line, pytest, its workers and the journal read them here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from conformance.core.errors import UsageError
from conformance.core.homes import HOUSE, find
from conformance.core.plan import DEFAULT_RANKS
from conformance.core.references import check_reference
from conformance.core.signatures import parse
from conformance.core.worlds import MOST_RANKS, are_world_sizes, is_simulated, seed_of

#: The default backend of each device, and the default device of each backend, as PyTorch pairs them.
BACKEND_OF = {"cuda": "nccl", "xpu": "xccl", "npu": "hccl", "emulated": "emulated_ccl"}
SHORTEST_TIMEOUT, LONGEST_TIMEOUT = 0.1, 86_400
#: Values with these names must not be empty: otherwise an empty variable of a script would go unnoticed.
PLACES = {"FILE", "DIR", "MODULE:CALLABLE"}
#: More workers than this for each processor would only wait for each other, or for memory.
MOST_WORKERS = 8


@dataclass(frozen=True)
class Option:
    """How an option is given, and which commands take it.

    Attributes:
        flags: as on the command line, such as ``--ranks``; none for a positional argument.
        help: what ``--help`` says.
        metavar: the name of its value in help texts; empty for a switch.
        read: turns the text into the value.
        many: whether it may be given more than once.
        pytest: its flag in a pytest run; empty if pytest does not have it.
        commands: the commands that take it.
        kept: whether the journal keeps it: it decides which tests there are, and how they run.
        default_on: whether it is a switch that is on unless it is turned off.
    """

    flags: tuple[str, ...]
    help: str
    metavar: str = ""
    read: Callable[[str], Any] = str
    many: bool = False
    pytest: str = ""
    commands: tuple[str, ...] = ("run",)
    kept: bool = False
    default_on: bool = False


def _option(*flags: str, help: str, default: Any = None, **more: Any) -> Any:
    """Return an option of ``conformance run`` only, unless ``commands`` says more."""
    return field(default=default, metadata={"option": Option(flags, help, **more)})


#: An option that decides which tests there are, and how they run.
_kept_option = partial(_option, commands=("run", "watch"), kept=True)


def read_ranks(text: str) -> tuple[int, ...]:
    """Read world sizes from a list of numbers.

    >>> read_ranks("1,2,4")
    (1, 2, 4)
    """
    parts = [part.strip() for part in text.split(",")]
    sizes = [int(part) for part in parts if re.fullmatch(r"[0-9]{1,4}", part)]
    if len(sizes) < len(parts) or not are_world_sizes(sizes):
        right = f"give world sizes from 1 to {MOST_RANKS} with commas between, for example 1,2,4"
        raise UsageError(f"--ranks {text!r}: {right}")
    return tuple(sorted(set(sizes)))


def read_timeout(text: str) -> float:
    """Read seconds from a text.

    >>> read_timeout("2.5")
    2.5
    """
    return checked_timeout(_number(text), f"--timeout {text!r}")


def _number(text: str) -> float:
    """A number from a text; 0, which no option takes, if it is none."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def checked_timeout(seconds: float, given: str) -> float:
    """The deadline of a test, or a :exc:`UsageError` that says how it was ``given``, if it is too short or too long."""
    if not SHORTEST_TIMEOUT <= seconds <= LONGEST_TIMEOUT:  # no process could answer before a shorter one
        raise UsageError(f"{given}: give a number of seconds from {SHORTEST_TIMEOUT} to {LONGEST_TIMEOUT}")
    return seconds


def read_resolution(text: str) -> float:
    """Read a fraction from a text in percent.

    >>> read_resolution("5"), read_resolution("0.1 %")
    (0.05, 0.001)
    """
    percent = _number(text.removesuffix("%"))
    if not 0 < percent <= 100:
        raise UsageError(f"--resolution {text!r}: give a number of percent above 0 and up to 100, such as 5")
    return percent / 100


def read_workers(text: str) -> str:
    """Read a number of processes, or pytest-xdist's word for one.

    >>> read_workers("2"), read_workers("auto")
    ('2', 'auto')
    """
    if text not in {"auto", "logical"} and not re.fullmatch(r"[0-9]{1,3}", text):
        raise UsageError(f"-n {text!r}: give a number of processes, or auto")
    processors = os.cpu_count() or 1
    if text.isdigit() and int(text) > MOST_WORKERS * processors:
        each = "the processor" if processors == 1 else f"each of the {processors} processors"
        raise UsageError(f"-n {text!r}: give at most {MOST_WORKERS} processes for {each}, or auto")
    return text


@dataclass(frozen=True)
class RunOptions:
    """The options of a run."""

    subjects: tuple[str, ...] = _kept_option(
        help="module:attribute: a Function class, a callable or a Subject",
        default=(), metavar="SUBJECT", many=True, pytest="--subject",
    )  # fmt: skip
    packages: tuple[str, ...] = _kept_option(
        "--from", help="test the subjects that an installed package registers",
        default=(), metavar="PACKAGE", many=True,
    )  # fmt: skip
    spec: str | None = _kept_option(
        "--spec", help="the spec to check the subjects against (default: Function, the contract only)",
        metavar="NAME", pytest="--spec",
    )  # fmt: skip
    types: str | None = _kept_option(
        "--types", help='the SPMD types of tensors, such as "V -> R", for spec Collective',
        metavar="TYPES", pytest="--types",
    )  # fmt: skip
    inputs: str | None = _kept_option(
        "--inputs", help="a function that yields tuples of arguments, for specs Function and Collective",
        metavar="MODULE:CALLABLE", pytest="--inputs",
    )  # fmt: skip
    ranks: tuple[int, ...] = _kept_option(
        "--ranks", help="world sizes for clauses that need several ranks (1,2,3,4)",
        default=DEFAULT_RANKS, metavar="N,N", read=read_ranks, pytest="--ranks",
    )  # fmt: skip
    backend: str = _kept_option(
        "--backend", help="a backend of torch.distributed, or simulated (default: that of the device, else gloo)",
        default="", metavar="NAME", pytest="--backend",
    )  # fmt: skip
    device: str = _kept_option(
        "--device", help="cpu (default), emulated, or an accelerator that PyTorch knows, such as cuda or cuda:1",
        default="", metavar="DEVICE", pytest="--device",
    )  # fmt: skip
    timeout: float = _kept_option(
        "--timeout", help="deadline of one test on one rank, in seconds (30)",
        default=30.0, metavar="S", read=read_timeout, pytest="--rank-timeout",
    )  # fmt: skip
    resolution: float = _kept_option(
        "--resolution", help="the largest error of a gradient that a pass may miss, in percent (5; in half 10)",
        default=0.0, metavar="PERCENT", read=read_resolution, pytest="--resolution",
    )  # fmt: skip
    setup: tuple[str, ...] = _kept_option(
        "--setup", help="a function that every rank calls first",
        default=(), metavar="MODULE:CALLABLE", many=True, pytest="--rank-setup",
    )  # fmt: skip
    compile: bool = _kept_option(
        "--compile", help="test under torch.compile too (on for run, off for watch)",
        default=True, pytest="--no-compile", default_on=True,
    )  # fmt: skip
    strict: bool = _option("--strict", help="fail on broken should and quality clauses too", default=False)
    expect: str | None = _option(
        "--expect", help="TOML file of known deviations, and of clauses that must be judged", metavar="FILE"
    )
    write_expect: str | None = _option(
        "--write-expect", help="write what was found and judged as such a file, for you to add reasons", metavar="FILE"
    )
    report: str | None = _option("--report", help="write report.json, report.html and junit.xml there", metavar="DIR")
    resume: str | None = _option("--resume", help="continue the interrupted run whose report is there", metavar="DIR")
    reproduce: str | None = _option(
        "--reproduce", help="write a script for each failure that needs torch alone", metavar="DIR"
    )
    expression: str | None = _option(
        "-k", help="run only the tests whose names match, as in pytest", metavar="EXPR", kept=True
    )
    workers: str | None = _option(
        "-n", help="run tests in this many processes (pytest-xdist)", metavar="WORKERS", read=read_workers
    )
    verbose: bool = _option("-v", "--verbose", help="list what is not applicable, and why", default=False)

    @classmethod
    def from_text(cls, given: Mapping[str, Any]) -> RunOptions:
        """Read options from texts, by name; a missing option has its default, an unknown one is ignored."""
        known = {name: value for name, value in given.items() if name in _OPTIONS and value not in (None, [], ())}
        return cls(**{name: _read(_OPTIONS[name], value) for name, value in known.items()})

    @classmethod
    def from_json(cls, data: Any) -> RunOptions:
        """Rebuild from :meth:`to_json`; a :exc:`UsageError` for data that are no options."""
        if not isinstance(data, dict):
            raise UsageError(f"options are an object, not a {type(data).__name__}")
        known: dict[str, Any] = {name: data[name] for name in _OPTIONS if name in data}
        known |= {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
        options = cls(**known)
        for name, value in vars(options).items():
            if not _fits(value, getattr(_DEFAULTS, name)):
                raise UsageError(f"{name} cannot be {value!r}")
        return options

    def to_json(self) -> dict[str, Any]:
        """Return the options that the journal keeps, as plain data."""
        return {name: getattr(self, name) for name, option in _OPTIONS.items() if option.kept}

    def resumed(self, earlier: RunOptions) -> RunOptions:
        """These options, completed from those of the run being resumed; a :exc:`UsageError` if some differ."""
        for name in self.to_json():
            now, then = getattr(self, name), getattr(earlier, name)
            if now not in (then, getattr(_DEFAULTS, name)):
                what = (_OPTIONS[name].flags or (name,))[0]
                asked = f"{what} was {_as_given(then)}, not {_as_given(now)}"
                raise UsageError(f"--resume continues a run with its own options: {asked}; leave it out")
        return replace(self, **{name: getattr(earlier, name) for name in self.to_json()})

    @property
    def device_arguments(self) -> tuple[str, ...]:
        """Return the part of a command line that names device and backend, if they are not the defaults."""
        usual = BACKEND_OF.get(self.device.partition(":")[0], "gloo")
        device = () if self.device == "cpu" else ("--device", self.device)
        return (*device, *(() if self.backend == usual else ("--backend", self.backend)))

    def checked(self) -> RunOptions:
        """Check the options, and complete them."""
        if self.spec is not None and self.spec not in HOUSE:
            find(self.spec, "--spec")
        device = self.device or next((kind for kind, name in BACKEND_OF.items() if name == self.backend), "cpu")
        if not re.fullmatch(r"cpu|(?!cpu)[a-z][a-z0-9_]*(:[0-9]{1,3})?", device):
            raise UsageError(f"--device {device!r}: give cpu, or an accelerator such as cuda, cuda:1 or emulated")
        backend = self.backend or BACKEND_OF.get(device.partition(":")[0], "gloo")
        if is_simulated(backend):
            seed_of(backend)
            if device != "cpu":
                raise UsageError(f"--backend {backend}: simulated ranks have tensors on the CPU; leave out --device")
        inputs = (self.inputs,) if self.inputs else ()
        for option, references in (("", self.subjects), ("--setup", self.setup), ("--inputs", inputs)):
            for reference in references:
                check_reference(reference, option)
        if self.types is not None:
            parse(self.types)
        if self.inputs and not self.subjects:
            raise UsageError("--inputs needs a subject to be the inputs of; give one as module:attribute")
        return replace(self, device=device, backend=backend)


def options_of(command: str) -> Iterator[tuple[str, Option]]:
    """Return the options that a command takes, by their names."""
    return ((name, option) for name, option in _OPTIONS.items() if command in option.commands)


def pytest_options() -> Iterator[tuple[str, Option]]:
    """Return the options that a pytest run takes, by their names."""
    return ((name, option) for name, option in _OPTIONS.items() if option.pytest)


def _read(option: Option, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if value == "" and option.metavar in PLACES:
        raise UsageError(f"{option.flags[0]} needs {option.metavar}; it was given an empty string")
    return tuple(map(option.read, value)) if option.many else option.read(value)


def _as_given(value: Any) -> str:
    """Write a value as the user gave it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else repr(value)


def _fits(value: Any, default: Any) -> bool:
    """Tell whether a value has the type of its default."""
    if default is None:
        return value is None or isinstance(value, str)
    if isinstance(default, tuple):
        kind = int if default else str
        return isinstance(value, tuple) and all(type(item) is kind for item in value)
    return type(value) is type(default) or (isinstance(default, float) and type(value) is int)


_OPTIONS: dict[str, Option] = {each.name: each.metadata["option"] for each in fields(RunOptions)}
_DEFAULTS = RunOptions()
