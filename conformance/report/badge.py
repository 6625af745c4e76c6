"""A small picture of the verdict, for a README."""

from __future__ import annotations

from conformance.report.model import SUBJECT_VERDICTS, Report

_COLOURS = {"conforms": "#1a7f37", "deviates": "#8a6100", "incomplete": "#57606a", "fails": "#b3261e"}
_LABEL = "conformance"
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img"
 aria-label="{label}: {verdict}">
<title>{label}: {verdict}</title>
<rect width="{left}" height="20" rx="3" fill="#3d444d"/>
<path d="M{left} 0h{inner}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{inner}z" fill="{colour}"/>
<rect x="{seam}" width="3" height="20" fill="#3d444d"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{middle_left}" y="14">{label}</text>
<text x="{middle_right}" y="14">{verdict}</text>
</g>
</svg>
"""


def badge(report: Report) -> str:
    """Return the badge of a report as SVG: the worst verdict of its parts, including PyTorch."""
    return badge_of(min((part.verdict for part in report.parts), key=SUBJECT_VERDICTS.index, default="incomplete"))


def badge_of(verdict: str) -> str:
    """Return the badge of a verdict."""
    left, right = _width(_LABEL), _width(verdict)
    return _SVG.format(
        label=_LABEL,
        verdict=verdict,
        colour=_COLOURS[verdict],
        left=left,
        inner=right - 3,
        seam=left - 3,
        width=left + right,
        middle_left=left / 2,
        middle_right=left + right / 2,
    )


def _width(text: str) -> int:
    return 7 * len(text) + 10
