"""What is known of a task: a trace that no longer applies is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.database.database_registry import open_database
from metasched.schedule.trace_outline import outline_of
from metasched.search.records.task_records import TaskRecords
from tests.support.recorded import add, dense, records_of

MINE = dense()
RECORD = replace(records_of(MINE, 1)[0], space="s")


@pytest.mark.parametrize("stale", [False, True])
def test_a_recorded_trace_is_given_as_long_as_it_applies(stale: bool) -> None:
    """One of an older version may name a step that there is no more: a search goes on without it."""
    with open_database("sqlite:///:memory:") as database:
        add(database, [replace(RECORD, trace="trace 1 of dense:\n    no step\n") if stale else RECORD])
        known = TaskRecords(database, RECORD.search, MINE)
        (summary,) = database.summaries(RECORD.task)
        found = known.trace_of(summary.outline, summary)
    assert found is None if stale else outline_of(found or "") == outline_of(RECORD.trace)
