"""The parts of a run whose time is reported."""

from __future__ import annotations

from enum import StrEnum

from metasched.support.stopwatch import Stopwatch


class Phase(StrEnum):
    """A part of tuning. BUILD and RUN are the workers' seconds, summed; the others are this process's own."""

    GUESS = "guess"
    SPACE = "space"
    SCORING = "scoring"
    AHEAD = "ahead"  # scoring while something is built: the rest of a batch, or what another task needs
    MODEL = "model"
    BUILD = "build"
    RUN = "run"
    MEASURE = "measure"  # waiting for builds and runs
    CONTEST = "contest"  # waiting for the turns and the repetitions at the end


class Phases(Stopwatch):
    """Seconds by phase of tuning; every phase has an entry."""

    def __init__(self) -> None:
        super().__init__(Phase)
