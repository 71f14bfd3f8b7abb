"""The end of a run: which candidates are timed again, how often, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable

from metasched.measure.runner import Runner
from metasched.search.batch import BatchMeasuring
from metasched.search.budget.room import Room
from metasched.search.contest import (
    Again,
    contest,
    contest_seconds,
    in_turns,
    last_repeats,
    turns_seconds,
    undecided_records,
)
from metasched.search.records.task_records import TaskRecords


class Settling:
    """The last measurements of a run of one task; `runner` opens the runner."""

    def __init__(self, known: TaskRecords, measuring: BatchMeasuring, seed: int, runner: Callable[[], Runner]) -> None:
        self._known = known
        self._measuring = measuring
        self._seed = seed
        self._runner = runner
        # What was worked out, and for how many records and repetitions.
        self._expected: tuple[object, tuple[float, float]] = (None, (0.0, 0.0))

    def settle(self, most: int, until: float | None) -> None:
        """Time the guesses and the `most` fastest in turns, with the repetitions that a short run has left. More turns
        follow where these leave it open which is the best. Nothing is done that would take longer than `until`.
        """
        room = Room(until=until, deadline=until)
        seconds = None if until is None else room.left_s
        again = contest(self._known.contenders(), most, seconds)
        turns = again[0].plan.visits if again and again[0].plan is not None else 0
        entrants = {one.record.identity for one in again}
        again += self._repeats_beside(again, seconds)
        if not again:
            return
        runner = self._runner()
        found = self._measuring.measure_again(runner, again, room)
        left_open = undecided_records([record for record in found if record.identity in entrants])
        more = in_turns(left_open, turns) if left_open else []
        if more and (until is None or turns_seconds(more) <= room.left_s):
            self._measuring.measure_again(runner, more, room)

    def _repeats_beside(self, again: list[Again], seconds: float | None) -> list[Again]:
        """The repetitions that there is time for."""
        repeats = last_repeats(self._known, self._seed) if self._measuring.measured else []
        while seconds is not None and repeats and turns_seconds([*again, *repeats]) > seconds:
            repeats.pop()
        return repeats

    def expected_s(self, most: int) -> tuple[float, float]:
        """What `settle` is expected to take, and the least with which it can tell the best from the guess."""
        counted = self._known.trial_count, self._known.repeats
        if self._expected[0] != counted:
            self._expected = (counted, contest_seconds(self._known.contenders(), most))
        return self._expected[1]
