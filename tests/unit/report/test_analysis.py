"""Why a search came to what it did, by records that were made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import metasched as ms
from metasched.database.database_registry import open_database
from metasched.report.analysis import TuningAnalysis, analysis_of
from metasched.report.candidates import decisions_of
from tests.support.measured import record, records, trace
from tests.support.toy_search import ToyRunner, ToySpace, toy_session


@pytest.fixture(scope="module")
def analysis() -> TuningAnalysis:
    given = records()
    return analysis_of("add[N=64]", given[::-1], duplicates=2, phases={"scoring": 1.5}, rejected={"no": 3})


def test_candidates_are_told_in_the_order_in_which_they_were_proposed(analysis: TuningAnalysis) -> None:
    assert [c.number for c in analysis.candidates] == [1, 2, 3, 4, 5, 6]
    assert [c.trial for c in analysis.candidates] == [0, 1, 2, 3, 4, 5]
    assert (analysis.best, analysis.guess, analysis.best_s) == (3, 1, 1e-6)
    second = analysis.candidates[1]
    assert (second.seconds, second.low, second.high, second.samples) == (2e-6, 2e-6, 2.4e-6, 9)
    assert second.repeats == 1
    assert second.disturbed == pytest.approx(1.2)
    assert [c.bound for c in analysis.candidates] == [False, False, False, True, False, False]
    assert analysis.candidates[5].disturbed == pytest.approx(2)
    assert [p.best_s for p in analysis.curve] == [4e-6, 2e-6, 1e-6, 1e-6, 1e-6, 1e-6]
    assert [p.expected_s for p in analysis.curve] == [2e-6, 2e-6, 2e-6, 1e-6, 3e-6, None]


def test_the_best_time_by_every_choice_is_told(analysis: TuningAnalysis) -> None:
    how, lanes = analysis.choices
    assert (how.address, how.structural) == ("try(add)/how", True)
    assert [(v.value, v.count, v.failed, v.best_s, v.best) for v in how.values] == [
        ('"plain"', 4, 1, 1e-6, 3),
        ('"fast"', 2, 0, pytest.approx(4.5e-6), 6),
    ]
    assert how.gain == pytest.approx(4.5)
    assert (lanes.address, lanes.structural) == ("try(add)/lanes", False)
    assert [(v.name, v.time, v.count) for v in lanes.values] == [
        ("16", "1.00 us", 1),
        ("8", "2.00 us", 2),
        ("4", "4.00 us", 1),
        ("not there", "4.50 us", 2),
    ]


def test_only_bounds_are_no_best_time() -> None:
    how = analysis_of("add", [record(0, trace(4), 1e-6), record(1, trace(4, "fast"), 2e-6, raced=True)]).choices[0]
    assert [(v.value, v.best_s, v.time) for v in how.values] == [
        ('"plain"', 1e-6, "1.00 us"),
        ('"fast"', None, "over 2.00 us"),
    ]


def test_what_the_model_believed_is_held_against_what_was_measured(analysis: TuningAnalysis) -> None:
    belief = analysis.belief
    assert belief is not None
    assert belief.count == 4
    assert belief.factor == pytest.approx(2), "of 2, 1 and 2: the bound counts for nothing"
    assert belief.rank_correlation == pytest.approx(-0.7746, abs=1e-4)
    assert belief.place_of_best == 2
    assert [(b.batch, b.count) for b in belief.batches] == [(0, 2), (1, 1)]
    silent = analysis_of("add", [replace(r, expected_seconds=None) for r in records()])
    assert silent.belief is None
    assert "model" not in str(silent)


def test_what_differs_from_the_best_is_told_by_address(analysis: TuningAnalysis) -> None:
    assert analysis.differing(analysis.candidates[2]) == ()
    assert analysis.differing(analysis.candidates[5]) == (
        ("try(add)/how", '"fast"', '"plain"'),
        ("try(add)/lanes", None, "16"),
    )


def test_it_reads_as_text_and_as_json(analysis: TuningAnalysis) -> None:
    lines = str(analysis).splitlines()
    assert lines[0] == "add[N=64]: 6 candidates measured"
    assert lines[1] == "best: 1.00 us, number 3 (batch 1, candidate), of which the model expected 2.00 us"
    assert 'by try(add)/how: "plain" 1.00 us (4), "fast" 4.50 us (2)' in lines
    assert "disturbed: 2 of 6 took over 10% longer in one visit than in another" in lines
    assert "known code: 2 proposals of code that had been measured" in lines
    assert "1 failed (1 run-timeout)" in lines
    assert "illegal before it was measured, 3 times: no" in lines
    assert "time: scoring 1.5 s" in lines
    assert "workers: compile 3.0 s, run 1.5 s" in lines
    data = json.loads(json.dumps(analysis.to_json(), allow_nan=False))
    assert data["candidates"][3]["decisions"] == {"try(add)/how": '"fast"', "try(add)/lanes": "8"}
    assert data["choices"][0]["gain"] == pytest.approx(4.5)
    assert data["belief"]["place_of_best"] == 2
    assert "<th" in analysis._repr_html_()


def test_why_the_guess_is_the_best_where_another_s_time_is_lower(analysis: TuningAnalysis) -> None:
    guess = analysis_of("add", records(), best=records()[0])
    assert "best: 4.00 us, number 1 (batch 0, guess), of which the model expected 2.00 us" in str(guess)
    assert "it is the guess: nothing was faster for sure" in str(guess).splitlines()
    assert "faster for sure" not in str(analysis)


def test_nothing_measured_is_an_analysis_too() -> None:
    empty = analysis_of("add", ())
    assert str(empty) == "add: 0 candidates measured\nno candidate was valid"
    assert empty.to_json()["candidates"] == []


def test_decisions_of_texts_that_are_no_traces_take_no_time() -> None:
    assert list(decisions_of("[1, 2, 3]")) == []
    hostile = '~ a("' * 100_000 + ' @ "x' + "\\" * 100_000
    assert list(decisions_of(f't {hostile}\nhow ~ unknown(1) @ "a b" := 3')) != []


def test_the_report_of_a_run_has_its_analysis(tmp_path: Path) -> None:
    runner, url = ToyRunner(ToySpace(), fail=True), f"sqlite:///{tmp_path}/t.db"
    with open_database(url) as database, toy_session(database, runner) as session:
        (report,) = session.run(trials=12)
    analysis = report.analysis
    assert len(analysis.candidates) == report.records == 12
    assert analysis.failures == report.failures
    assert analysis.phases == report.phases
    assert analysis.best_s == (None if report.best is None else report.best.seconds)
    assert "why" in report._repr_html_()
    assert "Tuning curve" in report.figures()
    (tmp_path / "t.db").unlink()
    assert "there is no database" in replace(report)._repr_html_()
    with pytest.raises(ms.NoRecord):
        _ = replace(report).analysis
    with pytest.raises(NotImplementedError):  # this is no notebook
        replace(report)._ipython_display_()


def test_the_records_of_a_database_in_memory_outlive_it() -> None:
    with open_database("sqlite:///:memory:") as database, toy_session(database, ToyRunner(ToySpace())) as session:
        (report,) = session.run(trials=4)
    assert len(report.analysis.candidates) == 4
