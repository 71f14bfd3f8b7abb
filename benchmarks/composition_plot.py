"""The plot of the composition experiment: best time against trials, a panel for each element type, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log2

_WIDTH, _HEIGHT, _MARGIN = 260, 220, 40
_COLOURS = ("#888888", "#4c72b0", "#55a868", "#c4a000", "#c44e52", "#8172b3")

Curves = Mapping[str, Mapping[str, Sequence[float]]]
"""Seconds of the best so far after each trial, by element type and by what was added last."""


def plot(curves: Curves) -> str:
    """The text of an SVG file; both axes are logarithmic."""
    panels = [_panel(n, dtype, lines) for n, (dtype, lines) in enumerate(curves.items())]
    names = list(dict.fromkeys(name for lines in curves.values() for name in lines))
    legend = [
        _text(_MARGIN + n % 3 * _WIDTH, _HEIGHT + _MARGIN + 20 + n // 3 * 16, name, _colour(n))
        for n, name in enumerate(names)
    ]
    size = f'width="{_WIDTH * max(len(panels), 1) + _MARGIN}" height="{_HEIGHT + 2 * _MARGIN + 30}"'
    body = "\n".join((*panels, *legend))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">\n{body}\n</svg>\n'


def _panel(number: int, dtype: str, lines: Mapping[str, Sequence[float]]) -> str:
    known = [seconds for line in lines.values() for seconds in line if seconds < inf]
    if not known:
        return _text(_MARGIN + number * _WIDTH, 20, f"{dtype}: no times", "black")
    low, high = log2(min(known)), log2(max(known))
    most = max(len(line) for line in lines.values())
    left = _MARGIN + number * _WIDTH

    def point(trial: int, seconds: float) -> str:
        x = left + log2(trial) / max(log2(most), 1.0) * (_WIDTH - _MARGIN)
        y = 30 + (high - log2(seconds)) / max(high - low, 1e-9) * (_HEIGHT - 30)
        return f"{x:.1f},{y:.1f}"

    parts = [
        _text(left, 16, f"{dtype}: {min(known) * 1e3:.3g} to {max(known) * 1e3:.3g} ms, 1 to {most} trials", "black")
    ]
    for n, line in enumerate(lines.values()):
        points = " ".join(point(trial, seconds) for trial, seconds in enumerate(line, start=1) if seconds < inf)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_colour(n)}" stroke-width="1.5"/>')
    return "\n".join(parts)


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _text(x: float, y: float, text: str, colour: str) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}">{text}</text>'
