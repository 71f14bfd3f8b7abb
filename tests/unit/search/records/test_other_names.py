"""A record that no longer applies is passed over, and the log says which program's and why."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

import metasched as ms
from metasched.database.database_registry import open_database
from metasched.database.record import DatabaseError
from metasched.errors import ScheduleError
from metasched.search.records.other_names import OwnNames, applying_trace, own_trace
from tests.support.recorded import TEXT, add, dense, records_of

MINE = dense()
OTHER = ms.parse_program(TEXT.replace("dense:", "product:"))
RECORD = records_of(MINE, 1)[0]
STALE = 'trace 1 of dense[N=32, M=64, K=16]:\n    b = get_block("gone")\n'


def test_a_trace_is_told_in_the_names_of_another_program() -> None:
    assert applying_trace(RECORD, MINE) == own_trace(RECORD, MINE)
    told = applying_trace(RECORD, OTHER)
    assert told is not None
    assert '"product"' in str(told)


@pytest.mark.parametrize(
    ("trace", "error", "reason"),
    [(STALE, ScheduleError, "gone"), ("trace 1 of dense:\n    no step\n", DatabaseError, "does not parse")],
)
def test_one_that_does_not_apply_is_passed_over_and_the_log_says_why(
    trace: str, error: type[Exception], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    stale = replace(RECORD, trace=trace)
    with pytest.raises(error, match=reason):
        own_trace(stale, OTHER)
    with caplog.at_level(logging.INFO, logger="metasched"):
        assert applying_trace(stale, OTHER) is None
    (message,) = caplog.messages
    assert f"a record of {OTHER.key} is passed over" in message
    assert reason in message


def test_the_outline_of_one_that_does_not_apply_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    with open_database("sqlite:///:memory:") as database:
        add(database, [RECORD, replace(RECORD, trace=STALE, code="other")])
        fresh, stale = sorted(database.summaries(RECORD.task), key=lambda s: s.number)
        names = OwnNames(database, RECORD.task, OTHER)
        with caplog.at_level(logging.INFO, logger="metasched"):
            assert names.in_own_names(fresh) != fresh
            assert not caplog.messages
            assert names.in_own_names(stale) == stale
    assert "gone" in caplog.text
