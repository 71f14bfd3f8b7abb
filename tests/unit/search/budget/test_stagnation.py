"""When a search has stagnated, and that it says so, waits no longer than its patience, and goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from metasched.database.database_registry import open_database
from metasched.measure.records import MeasureCandidate, Measurement
from metasched.measure.timing import TimingPlan
from metasched.report.progress import Progress
from metasched.report.progress_text import progress_line
from metasched.search.budget.stagnation import Stagnation, least_gain, stagnation_of
from metasched.search.proposal import Guesses
from tests.support.toy_search import ToyRunner, ToySpace, toy_session

BEST = "[0, 12, 12, 12, 12]"


@pytest.mark.parametrize(
    ("lows", "trials", "since"),
    [
        ([], 0, 0),
        ([], 7, 7),
        ([(1, 1.0)], 1, 0),
        ([(1, 1.0), (5, 0.5)], 9, 4),
        ([(1, 1.0), (5, 0.99)], 9, 8),
        ([(1, 1.0), (5, 0.99), (7, 0.975)], 9, 2),
    ],
)
def test_a_gain_is_more_than_noise_and_gains_add_up(lows: list[tuple[int, float]], trials: int, since: int) -> None:
    assert stagnation_of(lows, trials, 0.02).since == since


@pytest.mark.parametrize(("deviation", "gain"), [(None, 0.02), (0.001, 0.02), (0.03, 0.06), (0.5, 0.1)])
def test_what_counts_as_a_gain_follows_the_noise(deviation: float | None, gain: float) -> None:
    assert least_gain(deviation) == gain


@pytest.mark.parametrize(("since", "trials", "reached"), [(99, 100, False), (100, 101, True), (400, 900, False)])
def test_a_search_stagnates_after_as_many_trials_as_it_took(since: int, trials: int, reached: bool) -> None:
    assert Stagnation(since, trials, 0.02).is_reached == reached


def test_patience_ends_a_run_after_so_many_trials_without_a_gain(tmp_path: Path) -> None:
    with open_database(f"sqlite:///{tmp_path}/t.db") as database:
        for patience, records, measured in ((5, 6, 6), (5, 6, 0), (21, 22, 16)):
            with toy_session(database, ToyRunner(ToySpace()), guesses=Guesses(BEST, BEST)) as session:
                (report,) = session.run(patience=patience)
            assert (report.records, report.measured, report.out_of_patience) == (records, measured, True)
            assert f"nothing better in the last {patience} trials: patience is over" in str(report)
            assert report.stagnation == Stagnation(patience, records, 0.02)


class Noisy(ToyRunner):
    """The first trials take what is said; what is timed again takes a third longer now and then."""

    TIMES = (1.0, 0.97, 0.91, 0.895)

    def measured(self, candidate: MeasureCandidate, code: str, plan: TimingPlan) -> Measurement:
        number = self.traces.index(code)
        seconds = self.TIMES[number] if number < len(self.TIMES) else 2.0
        self.fixed[code] = seconds * (1 + len(self.again) % 2 / 3)
        return super().measured(candidate, code, plan)


def test_noise_that_the_turns_at_the_end_show_does_not_hide_why_a_run_ended(tmp_path: Path) -> None:
    """By the noise that is known after them the last trial that was faster is another."""
    with (
        open_database(f"sqlite:///{tmp_path}/t.db") as database,
        toy_session(database, Noisy(ToySpace()), guesses=Guesses(BEST, BEST)) as session,
    ):
        (report,) = session.run(patience=4)
        assert session._searches[0].known.stagnation().since == 3
    assert (report.records, report.out_of_patience, report.stagnation) == (7, True, Stagnation(4, 7, 0.02))


def test_a_search_that_has_stagnated_says_so(tmp_path: Path) -> None:
    seen: list[Progress] = []
    with (
        open_database(f"sqlite:///{tmp_path}/t.db") as database,
        toy_session(database, ToyRunner(ToySpace()), seen, Guesses(BEST, BEST)) as session,
    ):
        (report,) = session.run(trials=104)
    assert report.is_stagnant
    assert not report.out_of_patience
    assert "nothing better in the last 103 trials: more of them are likely a waste" in str(report)
    assert "nothing better in the last 103 trials" in progress_line(seen[-1])
    assert "nothing better" not in progress_line(seen[50])
