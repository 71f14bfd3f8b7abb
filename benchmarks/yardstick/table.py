"""The summaries of all models as a table to read, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from benchmarks.registry import Result

# Columns: the title, the figure of a summary, and whether its interval is shown.
_COLUMNS = (
    ("pairs", "pair_accuracy", True),
    ("worst", "pair_accuracy_worst", False),
    ("the twelve", "twelve_pair_accuracy", False),
    ("worst", "twelve_pair_accuracy_worst", False),
    ("fastest quarter", "fastest_quarter", True),
    ("top-1", "top1_score", False),
    ("top-5", "top5_score", False),
    ("10 in 30", "recall_10_in_30", False),
    ("regret 1", "regret_1", True),
    ("regret 8", "regret_8", False),
    ("regret 16", "regret_16", False),
    ("of known, 1", "regret_1_of_known", False),
    ("8", "regret_8_of_known", False),
    ("16", "regret_16_of_known", False),
)


def table(lines: Sequence[Result]) -> str:
    """A table for each protocol and pool, a model a row, in the order in which they come."""
    parts: dict[tuple[object, object], list[Result]] = {}
    for line in lines:
        parts.setdefault((line["protocol"], line["pool"]), []).append(line)
    return "\n\n".join(_part(protocol, pool, part) for (protocol, pool), part in parts.items())


def _part(protocol: object, pool: object, lines: Sequence[Result]) -> str:
    titles = ["model", *(title for title, _, _ in _COLUMNS), "log2 expected / measured"]
    rows = [titles, ["---"] * len(titles), *map(_row, lines)]
    heading = f"{protocol}; pool {pool}; {lines[0]['tasks']} tasks"
    return "\n".join([heading, "", *(f"| {' | '.join(row)} |" for row in rows)])


def _row(line: Result) -> list[str]:
    figures = [_figure(line, name, shown) for _, name, shown in _COLUMNS]
    return [str(line["model"]), *figures, _calibration(line)]


def _figure(line: Mapping[str, object], name: str, with_interval: bool) -> str:
    value = line[name]
    text = "–" if value is None else _short_text(cast(float, value))
    if not with_interval:
        return text
    low, high = cast(tuple[float, float], line[f"{name}_interval"])
    return f"{text} ({_short_text(low)} to {_short_text(high)})"


def _short_text(value: float) -> str:
    """Three digits after the point below 1, as shares are; two else."""
    return f"{value:.3f}".removeprefix("0") if value < 0.9995 else f"{value:.2f}"


def _calibration(line: Mapping[str, object]) -> str:
    bias = line["log2_expected_over_measured"]
    if bias is None:
        return "–"
    return f"{bias:+.2f}, ± {line['spread_of_tasks']:.2f} between tasks, ± {line['spread_in_task']:.2f} inside"
