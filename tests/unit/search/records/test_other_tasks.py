"""What other tasks teach depends on what is recorded, and on its order, alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from metasched.cost.core import DEFAULT_CORE
from metasched.database.base import Database
from metasched.database.record import SearchKey, TaskKey, code_version
from metasched.ir.program import Program
from metasched.search.records.feature_cache import FeatureCache
from metasched.search.records.other_tasks import OtherTasks
from metasched.search.records.task_records import TaskRecords
from tests.support.recorded import add, dense, records_of
from tests.support.targets import AVX512

MINE, OTHER, THIRD = dense(), dense(N=48), dense(N=64)


def search_of(program: Program) -> SearchKey:
    return SearchKey(TaskKey.of(program, AVX512), "s", code_version())


def others_of(database: Database, folder: Path | None = None) -> OtherTasks:
    return OtherTasks(database, DEFAULT_CORE, FeatureCache(DEFAULT_CORE, folder))


def counts(database: Database, batch: int, others: OtherTasks | None = None) -> list[int]:
    """Of how many candidates of each other task the batch of a search learns."""
    known = TaskRecords(database, search_of(MINE), MINE)
    found = (others or others_of(database)).lessons(search_of(MINE), MINE, known, batch)
    return [len(times) for times in found]


def test_a_task_learns_from_others_and_not_from_itself(database: Database) -> None:
    add(database, records_of(OTHER, 8))
    assert counts(database, 0) == [8]
    add(database, records_of(MINE, 4))
    assert counts(database, 1) == [8]


def test_a_batch_learns_from_what_was_recorded_before_the_last_of_its_own_earlier_batches(database: Database) -> None:
    add(database, records_of(OTHER, 8))
    add(database, records_of(MINE, 4))
    add(database, records_of(THIRD, 8))
    assert counts(database, 0) == [8]
    assert counts(database, 1) == [8], "the third came later"
    add(database, [replace(r, batch=1, code="later", trial=99) for r in records_of(MINE, 1, seed=3)])
    assert counts(database, 1) == [8], "which stays so when the batch is resumed"
    assert counts(database, 2) == [8, 8]


def test_a_first_batch_leaves_out_what_may_be_measured_while_it_is_proposed(database: Database) -> None:
    others = others_of(database)
    for program in (MINE, OTHER, THIRD):
        others.join(search_of(program))
    add(database, records_of(OTHER, 8))
    add(database, records_of(THIRD, 8))
    assert counts(database, 0, others) == [8], "the last batch of the session's other tasks"
    add(database, [replace(r, batch=1, code=f"1 {n}") for n, r in enumerate(records_of(OTHER, 4, seed=7))])
    with others.measuring_batch(search_of(OTHER), 1):
        assert counts(database, 0, others) == [8, 8], "while a batch is measured"
    add(database, records_of(MINE, 2))
    add(database, [replace(r, batch=1, code=f"2 {n}") for n, r in enumerate(records_of(THIRD, 4, seed=7))])
    assert counts(database, 0, others) == [8, 8], "and when the batch that was proposed then is resumed"


def test_tasks_of_a_session_do_not_teach_one_another_while_several_are_under_way(database: Database) -> None:
    add(database, records_of(OTHER, 8))
    add(database, records_of(THIRD, 8))
    others = OtherTasks(database, DEFAULT_CORE, FeatureCache(DEFAULT_CORE, None), at_once=lambda: 3)
    for program in (MINE, THIRD):
        others.join(search_of(program))
    assert counts(database, 0, others) == [8]


def test_what_nothing_is_to_be_learned_from_is_left_out(database: Database) -> None:
    add(database, records_of(OTHER, 3))
    add(database, [replace(r, code_version="older") for r in records_of(THIRD, 8)])
    add(database, records_of(dense(N=80), 8, target=AVX512.with_threads(1)))
    assert counts(database, 0) == []


def test_features_are_kept_and_the_same_lessons_are_the_same_objects(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, records_of(OTHER, 6))
    others, known = others_of(database, tmp_path), TaskRecords(database, search_of(MINE), MINE)
    (first,) = others.lessons(search_of(MINE), MINE, known, 0)
    (again,) = others.lessons(search_of(MINE), MINE, known, 0)
    assert first is again
    monkeypatch.setattr("metasched.search.records.other_tasks.describe_records", None)
    (kept,) = others_of(database, tmp_path).lessons(search_of(MINE), MINE, known, 0)
    assert (kept.features == first.features).all()
