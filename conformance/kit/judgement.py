"""Describe an oracle's judgement of a gradient."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from conformance.kit import tolerances

#: Below that a resolution is said as a relative error, and not in percent.
_FINE = 1e-3
#: Agrees and differs are meant up to the resolution; unclear is never a pass.
Verdict = Literal["agrees", "differs", "unclear"]
#: Where the error is: the gradient as a whole is too long, too short or reversed, or it has another shape.
ALONG, ELSEWHERE = "along the gradient", "elsewhere than along the gradient"


@dataclass(frozen=True)
class Judgement:
    """The answer of an oracle, with its resolution: the smallest relative error that it could have detected.

    >>> Judgement("agrees", "adjoint identity", resolution=0.02, elsewhere=0.06, calls=43).seen
    'a factor of 1.02, or another error of 6 % of the gradient, would have been detected (adjoint identity, 43 calls)'
    """

    verdict: Verdict
    oracle: str
    #: The rule that decided.
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
    #: The size of the error elsewhere than along the gradient.
    apart: float = math.nan

    @property
    def trace(self) -> dict[str, Any]:
        """Return it as plain data for a report, without values that are not finite."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, str) or math.isfinite(value)}

    @property
    def may_be_meant(self) -> bool:
        """Whether an error was detected, and it is so small that the author may have meant it."""
        return self.verdict == "differs" and abs(self.error) < tolerances.MAY_BE_MEANT

    def is_finer_than(self, limit: float) -> bool:
        """Whether an error of the whole gradient beyond a limit would have been detected."""
        return self.verdict == "agrees" and self.resolution <= limit

    @property
    def is_gross(self) -> bool:
        """Whether an error was detected that nobody means."""
        return self.verdict == "differs" and not self.may_be_meant

    @property
    def likely(self) -> str:
        """Name the mistake that explains the error of the whole gradient, if it is a known one."""
        if self.may_be_meant:
            return (
                "backward alone adds a small number, rounds, approximates, or computes in a lower precision; or an "
                "iteration stops before it is exact"
            )
        if self.rule != ALONG or not math.isfinite(self.error):
            return ""
        factor = 1 + self.error
        for whole in (factor, 1 / factor if factor else 0.0):
            if self.resolution * abs(whole) > 0.5:
                continue  # any whole number would be as near
            if abs(whole - round(whole)) <= min(0.1, 3 * self.resolution * abs(whole)) and abs(round(whole)) < 1000:
                simple = float(round(whole)) if whole == factor else 1 / round(whole) if round(whole) else 0.0
                names = {0.0: "all zeros", 1.0: "", -1.0: "the sign is wrong"}
                return names.get(simple, f"the right value times {simple:.6g}")
        return ""

    @property
    def seen(self) -> str:
        """Describe the smallest error that would have been detected."""
        if self.resolution == 0:
            return f"any gradient other than zero would have been detected ({self.oracle}, {self.calls} calls)"
        if max(self.resolution, self.elsewhere) < _FINE:
            worst = max(self.resolution, self.elsewhere)
            return f"a relative error of {worst:.0e} would have been detected ({self.oracle}, {self.calls} calls)"
        factor = f"a factor of {1 + self.resolution:.{_digits(self.resolution)}f}"
        other = f"another error of {percent(self.elsewhere)} of the gradient"
        return f"{factor}, or {other}, would have been detected ({self.oracle}, {self.calls} calls)"


def percent(part: float) -> str:
    """Format a fraction in percent, with one significant digit.

    >>> percent(0.0613), percent(0.0023), percent(2.3e-9)
    ('6 %', '0.2 %', '2e-07 %')
    """
    return f"{100 * part:.0f} %" if 100 * part >= 1 else f"{100 * part:.0g} %"


def _digits(part: float) -> int:
    """Return how many decimals a small fraction needs: two for 0.02, three for 0.004."""
    return max(1, -math.floor(math.log10(part))) if 0 < part < 1 else 1
