"""Times and progress as text for a person."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.ir.work import speed_text
from metasched.report.progress import Progress

_UNITS = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "us", 1e6))


def duration(seconds: float) -> str:
    """A kernel's time to three digits or more: `1.24 s`, `3.07 ms`, `18.2 us`."""
    unit, scale = next((unit, scale) for least, unit, scale in _UNITS if seconds >= least)
    value = seconds * scale
    return f"{value:.{0 if value >= 1000 else 1 if value >= 100 else 2}f} {unit}"


def clock(seconds: float) -> str:
    """A waiting time: `0:07`, `12:30`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def failures(counts: Mapping[str, int]) -> str:
    """`3 failed (2 run-timeout, 1 wrong-result)`, most frequent first; '' when there are none."""
    if not counts:
        return ""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return f"{sum(counts.values())} failed ({', '.join(f'{count} {reason}' for reason, count in ranked)})"


def progress_line(p: Progress) -> str:
    """The progress of a run, on one line."""
    parts = [p.task, f"{p.trials} trials" if p.total is None else f"{p.trials}/{p.total} trials"]
    parts.append("no valid candidate yet" if p.best_s is None else f"best {duration(p.best_s)}")
    parts += filter(None, [speed_text(p.gflops, p.gops)])
    parts.append(f"{clock(p.elapsed_s)} gone" + ("" if p.left_s is None else f", {clock(p.left_s)} left"))
    if p.is_stagnant:
        parts.append(f"nothing better in the last {p.since_gain} trials")
    if p.failures:
        parts.append(failures(p.failures))
    return "  ".join(parts)
