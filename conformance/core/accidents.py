"""Describe how a rank ended without judging its clause: equal endings have the same cause."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from conformance.core.outcomes import PROVED, RankOutcome

ON_IMPORT = "while the subject was imported: "
IN_A_COLLECTIVE = "; the last collective it entered: "
_FRAME = re.compile(r'^ *File "(.+)", line (\d+)(?: in (.+))?', re.MULTILINE)
#: What a simulated rank waits for in a line of the user's.
_WAITS = re.compile(r"waits in (.+?, in \w+)(?:; rank|$)")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_NUMBER = re.compile(r"(?:\b(?:b?float|complex|u?int))?\d+")  # or a dtype
#: How the names of the suite's own files begin; in a script that carries them, those of their modules.
_SUITE = (lambda: None).__code__.co_filename.rpartition("core")[0]
#: What is in the folders of our specifications but the subjects: the reference, planted bugs and what is right.
_TESTS = re.compile(r"\bspec_impl[/\\.]\w+[/\\.](?!_|planted|correct)\w+(?:\.py|>)$")
#: Where PyTorch's own files are, whatever the environment, and what it wraps deprecated functions with.
_TORCH = re.compile(r"[/\\](?:site-packages|dist-packages|pytorch)[/\\](?:torch[/\\]|typing_extensions\.py$)")


@dataclass(frozen=True)
class Accident:
    """How a rank ended without judging the clause: the outcome, its words, and where in the code."""

    outcome: str
    words: str
    place: tuple[tuple[str, str], ...]

    @property
    def telling(self) -> bool:
        """Tell whether an equal accident has the same cause; a bare signal may have many causes."""
        return bool(self.place) or self.words.startswith((ON_IMPORT, PROVED)) or IN_A_COLLECTIVE in self.words


def accident_of(rank: RankOutcome, line: str) -> Accident:
    """Describe how a rank ended.

    Args:
        rank: what it gave.
        line: the line of its message that says what happened.
    """
    words = _hang(line) if rank.outcome == "timeout" else line
    return Accident(rank.outcome, without_numbers(words), place(rank))


def _hang(line: str) -> str:
    """Leave out how long a rank was waited for, and what other ranks do in the suite: that is not the cause of a hang.

    >>> _hang("no rank can ever go on: rank 0 waits in barrier(), me.py:3, in backward; rank 1 waits in an exchange")
    'no rank can ever go on: barrier(), me.py:3, in backward'
    """
    if line.startswith(PROVED) and (waits := _WAITS.findall(line)):
        return PROVED + "; ".join(sorted(set(waits)))
    _, where, collective = line.partition(IN_A_COLLECTIVE)
    return where + collective or line


def without_numbers(words: str) -> str:
    """Remove the numbers, dtypes and addresses of one case.

    >>> without_numbers("expected float64, got 3 values of int8")
    'expected #, got # values of #'
    """
    return _NUMBER.sub("#", without_addresses(words))


def without_addresses(words: str) -> str:
    """Remove the addresses of objects, which differ from rank to rank and from run to run.

    >>> without_addresses("<Group object at 0x7f21c> is no group")
    '<Group object at 0x#> is no group'
    """
    return _ADDRESS.sub("0x#", words)


def is_of_the_suite(file: str) -> bool:
    """Tell whether a file is part of the suite, or has tests of one of our specifications.

    >>> [is_of_the_suite(f"/site-packages/spec_impl/torchlogix/{name}.py") for name in ("test_grad_factor", "__init__")]
    [True, False]
    """
    return file.startswith(_SUITE) or bool(_TESTS.search(file))


def place(rank: RankOutcome) -> tuple[tuple[str, str], ...]:
    """Find where the user's code ended: the frames of a traceback, or the innermost one of a stack.

    If no line of the user's raised the exception, only the innermost frame counts.
    """
    frames = tuple((file, line) for file, line, _ in _FRAME.findall(rank.message))
    if frames and is_of_the_suite(frames[0][0]):
        return frames[-1:]
    return frames or tuple((file, line) for file, line, _ in _FRAME.findall(rank.stack)[:1])


def is_of_pytorch(file: str) -> bool:
    """Whether a file is one of PyTorch's, or one that it wraps its functions with.

    >>> is_of_pytorch("/venv/site-packages/typing_extensions.py"), is_of_pytorch("/me/typing_extensions.py")
    (True, False)
    """
    return _TORCH.search(file) is not None


def own_line(stack: str) -> str:
    r"""The line of the user's code in which a rank is, by its stack, the innermost frame first; empty if in none.

    >>> own_line('File "/venv/site-packages/torch/nn.py", line 2 in f\nFile "/me/layers.py", line 7 in forward')
    'layers.py:7, in forward'
    """
    working = stack.partition("Current thread ")[2] or stack
    for file, line, function in _FRAME.findall(working):
        if not (is_of_the_suite(file) or file.startswith("<") or is_of_pytorch(file)):
            return f"{Path(file).name}:{line}, in {function}"
    return ""
