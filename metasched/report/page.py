"""A report as one HTML file, which needs nothing else: no other file, no network.

What records say is a stranger's text. It is escaped wherever it is, and the page permits no script but its own two, by
their hashes (Content Security Policy, level 2), nor anything from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from metasched.errors import MetaschedError
from metasched.ir.highlight import html_text
from metasched.ir.notebook import collapsible_html
from metasched.report.analysis import NOTHING_FASTER, TuningAnalysis
from metasched.report.candidates import MeasuredCandidate
from metasched.report.choices import ChoiceResult
from metasched.report.page_style import NOTEBOOK_STYLE, SCRIPT, STYLE
from metasched.report.pictures import BELIEF, CURVE, NOISE, pictures_of
from metasched.report.progress_text import duration, failures
from metasched.report.winner import WinnerProfile, winner_profile
from metasched.support.imports import imports

# Rows of the table: more would make the page slow.
_MOST_ROWS = 2000
_MOST_VALUES = 12
_MOST_DIFFERENCES = 8
_FIRST_PICTURES = (CURVE, BELIEF)


class ReportError(MetaschedError):
    """A report that cannot be made; the message says what is missing."""


def save_page(analysis: TuningAnalysis, path: str | Path, winner: WinnerProfile | None = None) -> Path:
    """Write the page of an analysis to a file, and return its path.

    Without `winner` the best kernel is compiled and run on random data, where this machine can. Raises ReportError
    where the extra `report` is not installed, and for the suffix of another kind of file, OSError for a file that
    cannot be written.
    """
    out = Path(path)
    if out.suffix.lower() not in {"", ".html", ".htm"}:
        raise ReportError(f"{out}: a report is written as HTML", hint=f"write it to {out.with_suffix('.html')}")
    plotly = plotly_script()
    out.write_text(page(analysis, winner or winner_profile(analysis), plotly), encoding="utf-8")
    return out


def page(analysis: TuningAnalysis, winner: WinnerProfile, plotly: str) -> str:
    """The text of the page. `plotly` is Plotly's script."""
    profile = winner.profile
    sections = [*_sections(analysis, winner)]
    links = "".join(f'<a href="#s{n}">{escape(title)}</a>' for n, (title, _) in enumerate(sections))
    body = "".join(
        f'<section id="s{n}"><h2>{escape(title)}</h2>{html}</section>' for n, (title, html) in enumerate(sections)
    )
    data = in_script({title: dict(picture) for title, picture in pictures_of(analysis, profile).items()})
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in (plotly, SCRIPT))
    policy = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(analysis.task)}: tuning report</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(analysis.task)}</h1>{_machine(analysis.target)}{_facts(analysis)}"
        f"<nav>{links}</nav></header><main>{body}</main>"
        f'<script type="application/json" id="pictures">{data}</script>'
        f"<script>{plotly}</script><script>{SCRIPT}</script></body></html>\n"
    )


def in_notebook(analysis: TuningAnalysis) -> str:
    """What a notebook shows of an analysis: its lines, and folded the best time by choice and the candidates.

    A notebook runs no script of ours, so nothing is sorted in it, and pictures are apart (see `figures`).
    """
    lines = "".join(f"<div>{escape(line)}</div>" for line in str(analysis).splitlines())
    choices = "".join(map(_choice, _by_gain(analysis.choices)))
    parts = [("best time by choice", choices), ("candidates", _candidates(analysis)), ("trace", _code(analysis.trace))]
    style = f'<style>{NOTEBOOK_STYLE}</style><div class="metasched-report">'
    return f"{style}{lines}{''.join(collapsible_html(title, html) for title, html in parts if html)}</div>"


def in_script(data: Mapping[str, Any]) -> str:
    """Data as JSON inside a script element: nothing in it can end that."""
    text = json.dumps(data, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def plotly_script() -> str:
    """Plotly's script. Raises ReportError where it is not installed."""
    try:
        text: str = imports.module("plotly.offline").get_plotlyjs()
    except ImportError as error:
        raise page_needs() from error
    return text


def page_needs() -> ReportError:
    """What says that the extra of reports is missing."""
    return ReportError("pictures are drawn by Plotly", hint="pip install 'metasched[report]'")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _sections(analysis: TuningAnalysis, winner: WinnerProfile) -> Iterator[tuple[str, str]]:
    profile, titles = winner.profile, [*pictures_of(analysis, winner.profile)]
    first = [title for title in titles if title in _FIRST_PICTURES]
    yield from ((title, _picture(title)) for title in first)
    if analysis.choices:
        yield "Best time by choice", "".join(map(_choice, _by_gain(analysis.choices)))
    if analysis.candidates:
        yield "Candidates", _candidates(analysis)
    yield from (
        (title, _picture(title) + _notes_beside(title, analysis)) for title in titles if title not in _FIRST_PICTURES
    )
    if profile is None:
        yield "Where the time of a call goes", f"<p>The best kernel was not run here: {escape(winner.obstacle)}</p>"
    else:
        yield "Where the time of a call goes", f"<div class=wide><pre>{escape(str(profile))}</pre></div>"
    if analysis.trace:
        shown = f"<div class=code>{html_text(analysis.trace)}</div>"
        yield "The best schedule", f"{shown}<details><summary>program</summary>{_code(analysis.program)}</details>"


def _picture(title: str) -> str:
    return f'<div class=picture data-picture="{escape(title)}"></div>'


def _code(text: str) -> str:
    return f"<div class=code>{html_text(text)}</div>"


def _notes_beside(title: str, analysis: TuningAnalysis) -> str:
    if title != NOISE:
        return ""
    told = [line for line in str(analysis).splitlines() if line.startswith(("noise of", "disturbed:", "known code:"))]
    return "".join(f"<p>{escape(line)}</p>" for line in told)


def _facts(analysis: TuningAnalysis) -> str:
    """The few numbers that one looks for first."""
    best, guess = analysis.candidate(analysis.best), analysis.candidate(analysis.guess)
    facts = [("best", "none was valid" if best is None or best.seconds is None else duration(best.seconds))]
    if analysis.is_guess:
        facts.append(("the guess", f"is the best: {NOTHING_FASTER}"))
    elif best is not None and guess is not None and best.seconds and guess.seconds:
        facts.append(("the guess", f"{duration(guess.seconds)}, x {guess.seconds / best.seconds:.2f}"))
    facts.append(("candidates", str(len(analysis.candidates))))
    if analysis.belief is not None:
        facts.append(("model off by", f"{analysis.belief.factor:.2f} x"))
    if analysis.noise is not None:
        facts.append(("noise", str(analysis.noise).partition(" ")[0]))
    facts.append(("failed", failures(analysis.failures) or "none"))
    shown = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f"<dl>{''.join(shown)}</dl>"


def _machine(target: str) -> str:
    """The target: its name and its threads, and the rest of it on demand."""
    words = target.split(" ")
    return f"<details><summary>{escape(' '.join(words[:2]))}</summary>{escape(' '.join(words[2:]))}</details>"


def _by_gain(choices: tuple[ChoiceResult, ...]) -> list[ChoiceResult]:
    return sorted(choices, key=lambda choice: (not choice.structural, -choice.gain))


def _choice(choice: ChoiceResult) -> str:
    """The values of one decision as bars: the longer the bar, the slower."""
    times = [value.best_s or value.median_s or 0.0 for value in choice.values]
    longest = max(times, default=0.0) or 1.0
    rows = []
    for value, time in zip(choice.values[:_MOST_VALUES], times, strict=False):
        kind = "sure" if value.best_s is not None else "bound"
        failed = f", {value.failed} failed" if value.failed else ""
        rows.append(
            f"<tr><td><code>{escape(value.name)}</code></td><td class=n>{escape(value.time)}</td>"
            f'<td class=bar><svg viewBox="0 0 100 10" preserveAspectRatio="none" class={kind}>'
            f'<rect width="{100 * time / longest:.1f}" height="10"/></svg></td>'
            f"<td class=n>{value.count}{escape(failed)}</td></tr>"
        )
    more = len(choice.values) - len(rows)
    rest = f"<tr><td colspan=4>and {more} more values</td></tr>" if more > 0 else ""
    kind = "" if choice.structural else " <small>(number)</small>"
    return f"<h3><code>{escape(choice.address)}</code>{kind}</h3><table class=choice>{''.join(rows)}{rest}</table>"


def _candidates(analysis: TuningAnalysis) -> str:
    ranked = sorted(analysis.candidates, key=lambda c: (c.seconds is None, c.bound, c.seconds or 0.0, c.number))
    rows = "".join(_row(candidate, analysis) for candidate in ranked[:_MOST_ROWS])
    left = len(ranked) - _MOST_ROWS
    note = f"<p>The {left} slowest are left out.</p>" if left > 0 else ""
    heads = ("number", "time", "x best", "expected", "role", "batch", "why it failed", "what differs from the best")
    head = "".join(f"<th><button>{escape(name)}</button></th>" for name in heads)
    return (
        f"<div class=wide><table class=sortable><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}"
    )


def _row(candidate: MeasuredCandidate, analysis: TuningAnalysis) -> str:
    best = analysis.best_s
    ratio = candidate.seconds / best if best and candidate.seconds else None
    sign = "≥ " if candidate.bound else ""
    cells = (
        _number(candidate.number, str(candidate.number)),
        _number(candidate.seconds, "" if candidate.seconds is None else f"{sign}{duration(candidate.seconds)}"),
        _number(ratio, "" if ratio is None else f"{sign}{ratio:.2f}"),
        _number(
            candidate.expected_seconds,
            "" if candidate.expected_seconds is None else duration(candidate.expected_seconds),
        ),
        f"<td>{escape(candidate.role)}</td>",
        _number(candidate.batch, str(candidate.batch)),
        f"<td>{escape(candidate.failure or '')}</td>",
        f"<td>{_difference(candidate, analysis)}</td>",
    )
    return f"<tr{' class=winner' if candidate.number == analysis.best else ''}>{''.join(cells)}</tr>"


def _number(value: float | None, text: str) -> str:
    return f'<td class=n data-v="{"" if value is None else repr(value)}">{escape(text)}</td>'


def _difference(candidate: MeasuredCandidate, analysis: TuningAnalysis) -> str:
    if candidate.number == analysis.best:
        return "the best"
    found = analysis.differing(candidate)
    told = [
        f"{escape(address)} <code>{escape('not there' if own is None else own)}</code>"
        for address, own, _ in found[:_MOST_DIFFERENCES]
    ]
    more = f" and {len(found) - _MOST_DIFFERENCES} more" if len(found) > _MOST_DIFFERENCES else ""
    if not found:
        return "nothing but its steps"
    return f"<details><summary>{len(found)}</summary>{', '.join(told)}{more}</details>"
