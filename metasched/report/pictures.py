"""The pictures of a report, as data that Plotly draws: `{"data": ..., "layout": ...}` each.

Colours are names, such as `$measured`, which the page looks up in its theme. Texts are escaped: Plotly takes some HTML
in labels, and a record's texts are a stranger's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

from metasched.report.analysis import TuningAnalysis
from metasched.report.candidates import DISTURBED_RATIO, MeasuredCandidate
from metasched.report.limits import Ceilings
from metasched.report.profile import CallProfile
from metasched.report.progress_text import duration

Picture = Mapping[str, Any]

CURVE, BELIEF, NOISE = "Tuning curve", "What the model believed", "Noise"
_MEASURED, _EXPECTED, _BEST, _GUESS, _BOUND, _MUTED = "$measured", "$expected", "$best", "$guess", "$bound", "$muted"
# Operations a byte, at the ends of a roofline.
_LEAST, _MOST = 2.0**-4, 2.0**10
# A logarithmic axis over more powers of ten has no room for ticks between them.
_SEVERAL_POWERS = 1.5


def pictures_of(analysis: TuningAnalysis, profile: CallProfile | None = None) -> dict[str, Picture]:
    """The pictures that there is something to see in, by title. A profile of the winner gives its roofline."""
    found = {
        CURVE: _curve(analysis),
        BELIEF: _belief(analysis),
        "Where the time went": _phases(analysis),
        NOISE: _noise(analysis),
        "The best kernel on this machine's roofline": None if profile is None else _roofline(profile),
    }
    return {title: picture for title, picture in found.items() if picture is not None}


def _curve(analysis: TuningAnalysis) -> Picture | None:
    timed = [c for c in analysis.candidates if c.seconds is not None]
    if not timed:
        return None
    expected = [c for c in analysis.candidates if c.expected_seconds is not None]
    steps = [point for point in analysis.curve if point.best_s is not None]
    data = [
        _points("expected by the model", expected, [c.expected_seconds for c in expected], _EXPECTED, "diamond-open"),
        *_points_of_times(timed),
        _trace(
            "best so far",
            [point.number for point in steps],
            [point.best_s for point in steps],
            mode="lines",
            line={"shape": "hv", "color": _BEST, "width": 2},
        ),
    ]
    guess = analysis.candidate(analysis.guess)
    if guess is not None and guess.seconds is not None:
        ends = [1, len(analysis.candidates)]
        line = {"color": _GUESS, "dash": "dash", "width": 1}
        data.append(_trace("the guess", ends, [guess.seconds] * 2, mode="lines", line=line))
    return {"data": data, "layout": _layout("candidates measured", _seconds("time of a call", _times(analysis)))}


def _times(analysis: TuningAnalysis) -> list[float | None]:
    return [seconds for c in analysis.candidates for seconds in (c.seconds, c.expected_seconds)]


def _points_of_times(candidates: Sequence[MeasuredCandidate]) -> list[Picture]:
    """Measured times, and those that are bounds apart."""
    sure, bounds = [c for c in candidates if not c.bound], [c for c in candidates if c.bound]
    found = [_points("measured", sure, [c.seconds for c in sure], _MEASURED, "circle")]
    if bounds:
        name = "measured, and dropped as slower"
        found.append(_points(name, bounds, [c.seconds for c in bounds], _BOUND, "triangle-up-open"))
    return found


def _belief(analysis: TuningAnalysis) -> Picture | None:
    told = [c for c in analysis.candidates if c.seconds is not None and c.expected_seconds is not None]
    if len(told) < 2:
        return None
    data = []
    for name, colour, symbol, some in (
        ("measured", _MEASURED, "circle", [c for c in told if not c.bound]),
        ("dropped as slower", _BOUND, "triangle-up-open", [c for c in told if c.bound]),
    ):
        if some:
            points = dict(_points(name, some, [c.seconds for c in some], colour, symbol))
            data.append(points | {"x": [c.expected_seconds for c in some]})
    both = [t for c in told for t in (c.seconds, c.expected_seconds) if t is not None]
    ends = [min(both), max(both)]
    line = {"color": _MUTED, "dash": "dot", "width": 1}
    data.append(dict(_trace("as expected", ends, ends, mode="lines", line=line)))
    layout = _layout("", _seconds("measured", both))
    return {"data": data, "layout": {**layout, "xaxis": _seconds("expected before it was measured", both)}}


def _phases(analysis: TuningAnalysis) -> Picture | None:
    rows = [("tuning", analysis.phases), ("workers, summed", analysis.workers)]
    names = [(title, what, seconds) for title, spent in rows for what, seconds in spent.items() if seconds > 0]
    if not names:
        return None
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [title],
            "x": [seconds],
            "name": escape(what),
            "text": [escape(what)],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "hovertemplate": "%{text}: %{x:.2f} s<extra></extra>",
            "marker": {"color": f"$series{n % 8}"},
        }
        for n, (title, what, seconds) in enumerate(names)
    ]
    axis = {"title": {"text": "seconds"}}
    layout = _layout("", {"automargin": True}) | {"barmode": "stack", "showlegend": False, "xaxis": axis, "height": 240}
    return {"data": data, "layout": layout}


def _noise(analysis: TuningAnalysis) -> Picture | None:
    timed = [c for c in analysis.candidates if c.seconds and c.low and c.high]
    if not timed:
        return None
    spread = [(c.high or 0.0) / (c.low or 1.0) for c in timed]
    apart = [c for c in timed if c.disturbed is not None]
    data = [
        _points("75 % of its samples over 25 %", timed, spread, _MEASURED, "circle"),
        _points("longest visit over the shortest", apart, [c.disturbed for c in apart], _BOUND, "x-thin-open"),
        _trace(
            "disturbed beyond",
            [1, len(analysis.candidates)],
            [DISTURBED_RATIO] * 2,
            mode="lines",
            line={"color": _MUTED, "dash": "dot", "width": 1},
        ),
    ]
    again = [c for c in timed if c.repeats]
    if again:
        ratios = [(c.high or 0.0) / (c.low or 1.0) for c in again]
        data.append(_points("timed again for the noise", again, ratios, _BEST, "circle-open"))
    axis = _logarithmic("times as long", [y for trace in data for y in trace["y"]])
    return {"data": data, "layout": _layout("candidates measured", axis)}


def _roofline(profile: CallProfile) -> Picture:
    ceilings = profile.ceilings
    data: list[Picture] = [*_ceilings(ceilings)]
    for n, part in enumerate(profile.parts):
        if not part.seconds:
            continue
        label = escape(part.name if len(part.name) <= 24 else f"{part.name[:21]}...")
        told = (
            f"{escape(part.name)}<br>{duration(part.seconds)}, {part.share:.0%} of the call<br>"
            f"{part.of_limit:.0%} of the limit, which is {part.bound.value}"
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": label,
                "text": [label],
                "textposition": "top center" if n % 2 else "bottom center",
                "cliponaxis": False,
                "x": [max(part.operations / part.nbytes, _LEAST) if part.nbytes else _MOST],
                "y": [max(part.operations / part.seconds / 1e9, 1e-2)],
                "hovertext": [told],
                "hoverinfo": "text",
                "marker": {
                    "color": f"$series{n % 8}",
                    "size": 9 + 22 * min(part.share, 1.0) ** 0.5,
                    "symbol": "circle" if part.depth == 0 else "circle-open",
                    "line": {"width": 2},
                },
                "showlegend": False,
            }
        )
    layout = _layout("", _logarithmic("G operations a second", [y for trace in data for y in trace["y"]]))
    across = _logarithmic("operations a byte", [x for trace in data for x in trace["x"]])
    return {"data": data, "layout": {**layout, "xaxis": across}}


def _ceilings(ceilings: Ceilings) -> list[Picture]:
    found = []
    for n, (level, rate) in enumerate(ceilings.bytes_per_s.items()):
        places = [_LEAST, ceilings.peak / rate, max(_MOST, ceilings.peak / rate)]
        roof = [min(ceilings.peak, x * rate) / 1e9 for x in places]
        name = f"{level.value}, {rate / 1e9:.0f} GB/s"
        found.append(_trace(name, places, roof, mode="lines", line={"color": f"$roof{n}", "width": 1.5}))
    return found


def _points(
    name: str, candidates: Sequence[MeasuredCandidate], values: Sequence[float | None], colour: str, symbol: str
) -> Picture:
    told = [escape(_candidate_text(c)) for c in candidates]
    marker = {"color": colour, "symbol": symbol, "size": 7}
    numbers = [c.number for c in candidates]
    return _trace(name, numbers, values, mode="markers", marker=marker, hovertext=told, hoverinfo="text+y")


def _candidate_text(candidate: MeasuredCandidate) -> str:
    time = "failed" if candidate.seconds is None else duration(candidate.seconds)
    return f"number {candidate.number}: {time}, {candidate.role} of batch {candidate.batch}"


def _trace(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> Picture:
    return {"type": "scatter", "name": escape(name), "x": list(x), "y": list(y), **more}


def _logarithmic(title: str, values: Iterable[float]) -> dict[str, Any]:
    """A logarithmic axis whose ticks have room: powers of ten where there are several, else 1, 2 and 5 of each."""
    known = [log10(value) for value in values if value and value > 0]
    several = max(known, default=0.0) - min(known, default=0.0) > _SEVERAL_POWERS
    return {"title": {"text": title}, "type": "log", "automargin": True, "dtick": 1 if several else "D2"}


def _seconds(title: str, times: Iterable[float | None]) -> dict[str, Any]:
    """A logarithmic axis of times, its ticks at 1, 2 and 5 of each power of ten."""
    known = [log10(seconds) for seconds in times if seconds]
    powers = range(floor(min(known, default=0.0)) - 1, ceil(max(known, default=0.0)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    texts = [_round(seconds) for seconds in ticks]
    return {
        "title": {"text": title},
        "type": "log",
        "automargin": True,
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": texts,
    }


def _round(seconds: float) -> str:
    """A time without the zeros behind its point."""
    number, unit = duration(seconds).split(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def _layout(x: str, y: Mapping[str, Any]) -> dict[str, Any]:
    return {"xaxis": {"title": {"text": x}}, "yaxis": dict(y), "height": 380}
