"""A plot of lines as SVG, which ``{picture}`` sets into a page: text and grid take the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

COLOURS = ("#3b76b8", "#c4652a", "#3a8f5b", "#8b5fb0", "#b23b52", "#7a7a7a", "#a08a2a")
# As wide as a phone: the legend stands below, and the text stays readable.
WIDTH, LEFT, TOP, BOTTOM, LEGEND = 400, 36, 34, 224, 262


def draw(file: Path, sizes: Sequence[str], lines: Sequence[Sequence[str]], title: str) -> None:
    """Write a line for each of ``lines``: its name, then a figure for each of ``sizes``."""
    shares = [[float(value) for value in line[1:]] for line in lines]
    most = max(1.2, *(max(line) for line in shares))
    step = (WIDTH - LEFT - 24) / max(1, len(sizes) - 1)
    end = LEFT + step * (len(sizes) - 1)

    def height(share: float) -> float:
        return TOP + (BOTTOM - TOP) * (1 - share / most)

    name = f"{file.stem}-title"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {LEGEND + 20 * len(lines)}" role="img" aria-labelledby="{name}" width="{WIDTH}">',
        f'<title id="{name}">{title}</title><text x="0" y="16" class="head">{title}</text>',
    ]
    for share in _ticks(most):
        y = height(share)
        parts.append(f'<line x1="{LEFT}" x2="{end:.0f}" y1="{y:.0f}" y2="{y:.0f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end" class="soft">{share:g}</text>')
    for place, size in enumerate(sizes):
        x = LEFT + place * step
        parts.append(f'<text x="{x:.0f}" y="{BOTTOM + 20}" text-anchor="middle" class="soft">{size}</text>')
    for number, (line, values) in enumerate(zip(lines, shares, strict=True)):
        colour, y = COLOURS[number % len(COLOURS)], LEGEND + 20 * number
        points = " ".join(f"{LEFT + place * step:.0f},{height(share):.0f}" for place, share in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="18" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 26}" y="{y + 6}">{line[0]}</text>')
    file.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


def picture(file: Path, caption: str) -> str:
    """What a page says to show the plot."""
    return f"```{{picture}} {file.stem}\n{caption}\n```\n"


def _ticks(most: float) -> list[float]:
    """Where the lines of a scale stand: a few round numbers up to its end."""
    step = next(step for step in (0.5, 1, 2, 5, 10, 20, 50, 100) if most / step <= 5)
    return [place * step for place in range(int(most / step) + 1)]
