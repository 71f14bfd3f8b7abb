"""Two sessions that tune in turns, batch by batch, so that disturbances of the machine affect both."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.search.report import TuningReport
from metasched.search.session import TuningSession


def tune_in_turns(sessions: Sequence[TuningSession], trials: int) -> list[tuple[TuningReport, ...]]:
    """Step each session in turn until its tasks have `trials` trials, and report each. Only one of them measures.

    Sessions that are compared must not share results: each has its own database, and its own runner, as a runner lets
    candidates race against the best it has seen. Ctrl-C ends all of them.
    """
    try:
        going = list(sessions)
        while going:
            going = [session for session in going if session.step(trials) is not None]
        for session in sessions:
            session.settle()
    except KeyboardInterrupt:
        for session in sessions:
            session.interrupted = True
    return [session.reports for session in sessions]
