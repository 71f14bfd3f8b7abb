"""The plot of a contest: best time over the best known against codes, a line for each contestant, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log2

_WIDTH, _HEIGHT, _LEFT, _TOP, _LEGEND = 520, 320, 56, 34, 190
_COLOURS = (
    "#c44e52",
    "#4c72b0",
    "#55a868",
    "#c4a000",
    "#8172b3",
    "#dd8452",
    "#64b5cd",
    "#937860",
    "#888888",
    "#da8bc3",
)
_TICKS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
_FIRST_CODES = 4


def plot(title: str, lines: Mapping[str, Sequence[float]]) -> str:
    """The text of an SVG file; both axes are logarithmic, that of times in what is over the best known.

    Args:
        title: what is above.
        lines: of each contestant the mean after 1, 2, ... codes, from 1 up.
    """
    most = max((len(line) for line in lines.values()), default=1)
    shown = [value for line in lines.values() for value in line[_FIRST_CODES - 1 :] if value < inf]
    low, high = min(shown, default=1.0), max(shown, default=2.0)

    def across(codes: int) -> float:
        return _LEFT + log2(codes / _FIRST_CODES) / max(log2(most / _FIRST_CODES), 1e-9) * _WIDTH

    def down(value: float) -> float:
        return (
            _TOP + (_log_excess(high) - _log_excess(value)) / max(_log_excess(high) - _log_excess(low), 1e-9) * _HEIGHT
        )

    parts = [_text(_LEFT, 20, title)]
    for tick in _TICKS:
        if low <= tick <= high:
            parts.append(_line(_LEFT, down(tick), _LEFT + _WIDTH, down(tick)))
            parts.append(_text(8, down(tick) + 4, f"{tick:g}"))
    codes = _FIRST_CODES
    while codes <= most:
        parts.append(_line(across(codes), _TOP, across(codes), _TOP + _HEIGHT))
        parts.append(_text(across(codes) - 6, _TOP + _HEIGHT + 18, str(codes)))
        codes *= 2
    for n, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[n % len(_COLOURS)]
        points = " ".join(
            f"{across(at):.1f},{down(value):.1f}"
            for at, value in enumerate(line, start=1)
            if at >= _FIRST_CODES and value < inf
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts.append(_text(_LEFT + _WIDTH + 12, _TOP + 12 + 18 * n, name, colour))
    size = f'width="{_LEFT + _WIDTH + _LEGEND}" height="{_TOP + _HEIGHT + 30}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n{body}\n</svg>\n'


def _log_excess(value: float) -> float:
    """The logarithm of what is over the best known, so that lines which come near to it stay apart."""
    return log2(max(value - 1.0, 0.002))


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="#999999" stroke-opacity="0.4"/>'


def _text(x: float, y: float, text: str, colour: str = "#777777") -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{escaped}</text>'
