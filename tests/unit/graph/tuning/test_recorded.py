"""Records of a network's tasks as choices: what no longer applies is left to a guess."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from metasched.database.record import Role
from metasched.graph.tasks import NetworkTask
from metasched.graph.tuning.recorded import choices_of
from tests.support.recorded import dense, records_of

TASKS = [NetworkTask(program.structural_hash, program, (), 1) for program in (dense(), dense(N=48), dense(N=64))]


def test_a_stale_record_is_left_out_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    good, guessed, stale = (records_of(task.program, 1)[0] for task in TASKS)
    found = {
        TASKS[0].key: good,
        TASKS[1].key: replace(guessed, role=Role.GUESS),
        TASKS[2].key: replace(stale, trace="trace 1 of dense:\n    no step\n"),
    }
    with caplog.at_level(logging.INFO, logger="metasched"):
        choices = choices_of(found, TASKS)
    assert list(choices) == [TASKS[0].key, TASKS[1].key]
    assert str(choices[TASKS[0].key].trace) == good.trace
    assert ["the guess" in choice.detail for choice in choices.values()] == [False, True]
    (message,) = caplog.messages
    assert f"a record of {TASKS[2].program.key} is passed over" in message


def test_tasks_without_a_time_have_no_choice() -> None:
    failed = replace(records_of(TASKS[0].program, 1)[0], visits=(), failure="wrong-result")
    assert choices_of({TASKS[0].key: failed}, TASKS) == {}
