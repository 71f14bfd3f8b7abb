"""The report as one HTML file: what is in it, and that nothing in a record is markup, or a script."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from metasched.report.analysis import TuningAnalysis, analysis_of
from metasched.report.limits import Bound, Ceilings
from metasched.report.page import ReportError, in_notebook, in_script, page, plotly_script, save_page
from metasched.report.pictures import pictures_of
from metasched.report.profile import CallProfile, PartProfile
from metasched.report.winner import WinnerProfile, winner_profile
from metasched.target import Target
from tests.support.measured import record, records, trace

_LEVELS = (Bound.L1, Bound.L2, Bound.L3, Bound.MEMORY)
CEILINGS = Ceilings(3e9, 384e9, {level: 1e12 / 4**n for n, level in enumerate(_LEVELS)}, 2, True)


def profile(name: str = "add") -> CallProfile:
    nest = PartProfile((name,), ((name, 64),), 0, 1e-6, 1.0, 2, 0.5, 64.0, 512.0, 1e-7, Bound.MEMORY)
    return CallProfile(name, (nest, replace(nest, depth=1, nbytes=0.0)), 1e-6, 0.01, 3, CEILINGS)


class Elements(HTMLParser):
    """The elements of a page, with their attributes, and the texts of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()
        self.values: list[str | None] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.values += [value for _, value in attrs]
        self._in_script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


HOSTILE = "</script></title></style><img src=x onerror=alert(1)>\"'<a href=javascript:alert(2)>&lt;b&gt;"


def hostile() -> TuningAnalysis:
    """An analysis in which every text that a record has would be markup."""
    quoted = json.dumps(HOSTILE)
    wrong = trace(4).replace('"try(add)/how" := "plain"', f"{quoted} := {quoted}")
    other = replace(record(1, wrong, 2e-6, 1e-6), program=HOSTILE, code=HOSTILE, space=HOSTILE)
    given = [replace(record(0, trace(8), 1e-6, 2e-6), program=HOSTILE, phases=((HOSTILE, 1.0),)), other]
    given.append(record(2, trace(4), None, failure=HOSTILE))
    given = [replace(r, task=replace(r.task, target=HOSTILE)) for r in given]
    return analysis_of(HOSTILE, given, phases={HOSTILE: 1.0}, rejected={HOSTILE: 1})


def test_nothing_that_a_record_says_is_markup_or_a_script() -> None:
    plotly = "/* Plotly */"
    plain = Elements(page(analysis_of("add", records()), WinnerProfile(profile()), plotly))
    found = Elements(page(hostile(), WinnerProfile(profile(HOSTILE)), plotly))
    refused = Elements(page(hostile(), WinnerProfile(None, HOSTILE), plotly))
    for elements in (found, refused):
        assert set(elements.names) <= set(plain.names) | {"p"}
        assert elements.attributes <= plain.attributes
        assert elements.names.count("script") == 3
        assert not any(str(value).startswith("javascript:") for value in elements.values)
    data, *scripts = found.scripts
    assert "<" not in data
    assert json.loads(data)
    assert scripts == plain.scripts[1:]
    texts = [json.dumps(picture) for picture in pictures_of(hostile(), profile(HOSTILE)).values()]
    assert not any("<img" in text or "<a " in text for text in texts), "Plotly takes some HTML in its texts"


def test_only_the_page_s_own_scripts_may_run_and_nothing_is_loaded() -> None:
    elements = Elements(page(analysis_of("add", records()), WinnerProfile(None, "no"), "/* Plotly */"))
    (policy,) = (value for value in elements.values if value and "default-src" in value)
    assert "default-src 'none'" in policy
    for script in elements.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not {"src", "onclick", "onerror"} & elements.attributes
    assert not any(value and value.startswith("http") for value in elements.values)


def test_the_page_has_a_place_for_every_picture_and_a_row_for_every_candidate() -> None:
    analysis = analysis_of("add", records(), phases={"scoring": 1.0})
    text = page(analysis, WinnerProfile(profile()), "/* Plotly */")
    pictures = pictures_of(analysis, profile())
    assert list(pictures) == [
        "Tuning curve",
        "What the model believed",
        "Where the time went",
        "Noise",
        "The best kernel on this machine's roofline",
    ]
    values = Elements(text).values
    assert all(title in values for title in pictures)
    assert text.count("<tr class=winner>") == 1
    assert text.count('<td class=n data-v="') == 6 * 5
    assert "run-timeout" in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme:dark" in text


def test_why_the_guess_is_the_best_where_another_s_time_is_lower() -> None:
    told = "is the best: nothing was faster for sure"
    assert told in page(analysis_of("add", records(), best=records()[0]), WinnerProfile(None), "")
    assert told not in page(analysis_of("add", records()), WinnerProfile(None), "")


def test_the_roofline_has_a_ceiling_for_every_memory_and_a_point_for_every_part() -> None:
    data = pictures_of(analysis_of("add", ()), profile())["The best kernel on this machine's roofline"]["data"]
    ceilings, points = data[:4], data[4:]
    assert [c["name"] for c in ceilings][:2] == ["first cache, 1000 GB/s", "second cache, 250 GB/s"]
    assert all(c["y"][1] == c["y"][2] == pytest.approx(384) for c in ceilings)
    assert ceilings[0]["x"][1] == pytest.approx(0.384)
    assert [p["x"] for p in points] == [[0.125], [1024.0]]
    assert points[0]["y"] == [pytest.approx(0.064)]


def test_a_notebook_shows_the_same_without_scripts() -> None:
    plain, found = Elements(in_notebook(analysis_of("add", records()))), Elements(in_notebook(hostile()))
    assert set(found.names) <= set(plain.names)
    assert found.attributes <= plain.attributes
    assert not {"script", "img", "a"} & set(found.names)
    assert found.names.count("details") == 3 + len(hostile().candidates) - 1


def test_an_analysis_of_nothing_has_a_page() -> None:
    text = page(analysis_of("add", ()), winner_profile(analysis_of("add", ())), "/* Plotly */")
    assert "none was valid" in text
    assert "The best kernel was not run here: no candidate was valid" in text


def test_data_in_a_script_cannot_end_it() -> None:
    text = in_script({"a": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028&"}


def test_a_report_is_saved_with_the_best_kernel_run_again(tmp_path: Path) -> None:
    here = Target.detect(1)
    given = [replace(r, task=replace(r.task, target=str(here))) for r in records()]
    analysis = analysis_of("add[N=64]", given)
    found = winner_profile(analysis)
    assert found.profile is not None, found.obstacle
    assert [part.blocks for part in found.profile.parts] == [("add",)]
    path = save_page(analysis, tmp_path / "r.html", found)
    text = path.read_text(encoding="utf-8")
    assert len(text) > 1_000_000, "Plotly is in it"
    assert "Plotly.react(" in text
    assert Elements(text.replace(plotly_script(), "")).names.count("script") == 3


def test_a_kernel_of_another_machine_is_not_run() -> None:
    strange = replace(Target.detect(1), features=frozenset({"sve2p1"}))
    given = [replace(r, task=replace(r.task, target=str(strange))) for r in records()]
    assert "this machine lacks" in winner_profile(analysis_of("add", given)).obstacle


def test_a_page_is_no_other_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"r.pdf: a report is written as HTML\n  hint: .*r.html"):
        save_page(analysis_of("add", ()), tmp_path / "r.pdf")
    assert not list(tmp_path.iterdir())


def test_without_plotly_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ReportError, match=r"drawn by Plotly\n  hint: pip install 'metasched\[report\]'"):
        save_page(analysis_of("add", ()), tmp_path / "r.html")
    assert not list(tmp_path.iterdir())
