"""Candidates as arrays: features of the right candidate, times of both moments, and what is known apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from benchmarks.yardstick import samples as module
from benchmarks.yardstick.data import NEAR_BEST, SPACE, TimedCode, TimedTask, append, read_tasks
from benchmarks.yardstick.details import CYCLES
from benchmarks.yardstick.replay import problems_of
from benchmarks.yardstick.samples import features_of, kept_features, samples, sketch_of
from metasched.cost.core import DEFAULT_CORE, Core, default_core
from metasched.cost.features import NAMES, FeatureProgram
from metasched.errors import ScheduleError
from metasched.target import Target
from tests.support.targets import AVX512

TEXT = """program tiny(A: f32[24, 40], B: f32[40, 16]) -> C: f32[24, 16]:
    product: C[i, j] = sum[k](A[i, k] * B[k, j])
"""
SKETCH = """trace 1 of tiny:
    product = get_block("product")
    i, j, k = get_loops(product)
    t0, t1 ~ sample_tile(i, parts=2)
    i0, i1 = split(i, [t0, t1])
    t2, t3 ~ sample_tile(j, parts=2)
    j0, j1 = split(j, [t2, t3])
    reorder(i0, j0, k, i1, j1)
    parallel(i0)
    vectorize(j1, lanes=8)
"""
EXPERT = """trace 1 of tiny:
    product = get_block("product")
    i, j, k = get_loops(product)
    vectorize(j, lanes=16)
"""


def timed(pool: str = SPACE, *codes: TimedCode, known: dict[str, str] | None = None) -> TimedTask:
    return TimedTask(
        "tiny", {}, TEXT, None, "random program", pool, str(AVX512), (SKETCH, EXPERT), codes, known or {}, {}
    )


@pytest.fixture
def task() -> TimedTask:
    return timed(
        SPACE,
        TimedCode(1, (), 1e-6, 1.5e-6),
        TimedCode(0, (4, 8), 4e-6, 3e-6),
        TimedCode(0, (2, 16), 2e-6, 2.5e-6),
        known={"0": "tiny.expert"},
    )


def test_the_features_of_a_candidate_are_those_of_its_program(task: TimedTask) -> None:
    features, details = features_of(task)
    program = task.program()
    for number, code in enumerate(task.codes):
        func = sketch_of(task, code.sketch).trace_of(code.row).apply_to(program).func
        assert np.array_equal(features[number], FeatureProgram(func, (), AVX512)(np.empty((1, 0), np.int64))[0])
        cycles = np.exp2(details.statements[number, :, CYCLES]).sum() - 1.0
        assert np.log2(cycles + 1.0) == pytest.approx(features[number, NAMES.index("all.cycles")], rel=1e-5)
    assert len(np.unique(features, axis=0)) == 3


def test_what_is_only_known_is_left_out_and_is_the_best_known(task: TimedTask) -> None:
    (found,) = samples([task])
    assert found.task == "tiny"
    assert found.first.tolist() == [4e-6, 2e-6]
    assert found.second.tolist() == [3e-6, 2.5e-6]
    assert found.seconds.tolist() == [3e-6, 2e-6]
    assert found.known == 1e-6
    assert np.array_equal(found.features, features_of(task)[0][1:])


def test_the_best_known_is_that_of_every_pool(task: TimedTask) -> None:
    near = timed(NEAR_BEST, TimedCode(0, (4, 8), 9e-7, 8e-7), TimedCode(0, (8, 8), 9e-6, 8e-6))
    found = samples([task, near])
    assert [one.pool for one in found] == [SPACE, NEAR_BEST]
    assert [one.known for one in found] == [8e-7, 8e-7]


def test_other_constants_of_a_core_give_other_features(task: TimedTask) -> None:
    assert not np.array_equal(features_of(task, Core(parallel_launch=1e6))[0], features_of(task)[0])


def test_features_are_kept_and_read_again(task: TimedTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features, details = kept_features(task, DEFAULT_CORE, tmp_path)
    slower = timed(SPACE, *(TimedCode(c.sketch, c.row, 1.0, 1.0) for c in task.codes))
    monkeypatch.setattr(module, "features_of", None)
    for again in (task, slower):
        found, of_statements = kept_features(again, DEFAULT_CORE, tmp_path)
        assert np.array_equal(found, features)
        assert np.array_equal(of_statements.statements, details.statements)
        assert np.array_equal(of_statements.curves, details.curves)
    assert len(list(tmp_path.iterdir())) == 1


def test_features_are_those_by_the_default_constants_of_the_target(task: TimedTask) -> None:
    """Not by those of another CPU: a Zen 4 has half the width of its vectors."""
    zen = replace(task, target=str(replace(AVX512, name="znver4")))
    halves = default_core(Target.parse(zen.target))
    assert np.array_equal(features_of(zen)[0], features_of(zen, halves)[0])
    assert not np.array_equal(features_of(zen)[0], features_of(zen, DEFAULT_CORE)[0])


def test_kept_features_are_not_those_of_other_constants_rows_or_sources(
    task: TimedTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_features(task, DEFAULT_CORE, tmp_path)
    kept_features(task, Core(parallel_launch=1e6), tmp_path)
    kept_features(timed(SPACE, TimedCode(0, (2, 2), 1.0, 1.0)), DEFAULT_CORE, tmp_path)
    monkeypatch.setattr(module, "sources_hash", lambda: "others")
    kept_features(task, DEFAULT_CORE, tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_file_of_measurements_is_read_as_it_was_written(task: TimedTask, tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    assert list(read_tasks(path)) == []
    near = timed(NEAR_BEST, TimedCode(0, (4, 8), 9e-7, 8e-7))
    append(task, path)
    append(near, path)
    assert list(read_tasks(path)) == [task, near]
    path.write_text(path.read_text() + '{"operator": "half', encoding="utf-8")
    assert list(read_tasks(path)) == [task, near]


def test_sketches_that_replay_are_not_broken(task: TimedTask) -> None:
    assert list(problems_of(task)) == []


def test_a_sketch_that_does_not_replay_is_named(task: TimedTask) -> None:
    gone = TimedTask(**{**vars(task), "sketches": (SKETCH.replace("reorder(i0, j0, k", "reorder(i1, j0, k"), EXPERT)})
    (line,) = problems_of(gone)
    assert line.startswith("tiny (space), sketch 0: its trace does not replay: ")
    with pytest.raises((ScheduleError, ms.LanguageError)):
        features_of(gone)


@pytest.mark.parametrize(
    ("row", "message"),
    [((4,), "it has 2 numbers left open, and row [4] has 1"), ((4, 99), "row [4, 99] is not among what its variables")],
)
def test_a_row_that_is_none_of_its_sketch_is_named(row: tuple[int, ...], message: str) -> None:
    (line,) = problems_of(timed(SPACE, TimedCode(0, row, 1.0, 1.0)))
    assert message in line


def test_a_program_that_is_refused_is_named(task: TimedTask) -> None:
    (line,) = problems_of(TimedTask(**{**vars(task), "text": TEXT.replace("sum[k]", "sum[")}))
    assert line.startswith("tiny (space): the program is refused: ")


def test_only_sketches_that_have_candidates_replay(task: TimedTask) -> None:
    unused = TimedTask(**{**vars(task), "sketches": (SKETCH, EXPERT, "no trace")})
    assert list(problems_of(unused)) == []
    assert len(features_of(unused)[0]) == 3
