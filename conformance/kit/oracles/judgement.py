"""What an oracle says of a gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

#: Agrees and differs are meant up to the resolution; unclear is never a pass.
Verdict = Literal["agrees", "differs", "unclear"]
#: Where an error is seen: the gradient as a whole is too long, too short or turned round, or it has another shape.
ALONG, ELSEWHERE = "along the gradient", "elsewhere than along the gradient"


@dataclass(frozen=True)
class Judgement:
    """The answer of an oracle, with its resolution: the smallest relative error that it could have seen.

    >>> Judgement("agrees", "adjoint identity", resolution=0.02, elsewhere=0.06, calls=43).seen
    'a factor of 1.02, or another error of 6 % of the gradient, would have been seen (adjoint identity, 43 calls)'
    """

    verdict: Verdict
    oracle: str
    #: Which of its rules decided.
    rule: str = ""
    #: What backward says, and what the oracle does, along the direction in which they were compared.
    actual: float = math.nan
    expected: float = math.nan
    #: The relative error that was seen.
    error: float = math.nan
    #: The smallest error of the whole gradient, as a factor less one, that would have been seen.
    resolution: float = math.inf
    #: The smallest error of any other shape, next to the gradient, that would have been seen.
    elsewhere: float = math.inf
    #: The longest step, next to the input; NaN if there are no steps.
    step: float = math.nan
    #: How far rounding alone moves the comparison, next to the gradient.
    noise: float = math.nan
    #: How many calls of forward and of backward it took.
    calls: int = 0

    def is_finer_than(self, limit: float) -> bool:
        """Whether an error of the whole gradient beyond a limit would have been seen."""
        return self.verdict == "agrees" and self.resolution <= limit

    @property
    def seen(self) -> str:
        """What would have been seen, in words."""
        if self.resolution == 0:
            return f"any gradient but zero would have been seen ({self.oracle}, {self.calls} calls)"
        factor = f"a factor of {1 + self.resolution:.{_digits(self.resolution)}f}"
        other = f"another error of {percent(self.elsewhere)} of the gradient"
        return f"{factor}, or {other}, would have been seen ({self.oracle}, {self.calls} calls)"


def percent(part: float) -> str:
    """A part in percent, with one digit that counts.

    >>> percent(0.0613), percent(2.3e-9), percent(0.97)
    ('6 %', '2e-07 %', '97 %')
    """
    return f"{100 * part:.0f} %" if 100 * part >= 1 else f"{100 * part:.0g} %"


def _digits(part: float) -> int:
    """How many decimals show a part: two for 0.02, nine for 2e-9."""
    return min(15, max(1, -math.floor(math.log10(part)))) if 0 < part < math.inf else 1
