"""How long candidates of a task take, so that no more are begun than there is time for."""

from __future__ import annotations

from collections.abc import Iterable

from metasched.database.record import Record, VisitKind

# Phases of a measurement in which the machine code is made, by builders.
BUILDING_PHASES = frozenset({"replay", "lower", "emit", "compile", "build"})
# Waiting for what results are compared with, once.
_WAITING_PHASE = "reference"
# Builders work side by side; there are two at least wherever a second matters.
_BUILDERS = 2
# Waiting between visits, whatever their number, and what one candidate takes of this process and of the pipes.
_BATCH_S = 0.25
_CANDIDATE_S = 0.02
# What is expected before anything was measured: of building, and of a call in terms of the least that is possible.
_BUILD_S = 0.15
_CALLS_EXPECTED = 16
# Times vary: so much longer than expected is reckoned with.
_TIME_MARGIN = 1.15


class Pace:
    """How long a candidate takes from its trace to its time. `least_s` is the least that a call can take."""

    def __init__(self, least_s: float) -> None:
        self._expected = _BUILD_S + _CALLS_EXPECTED * least_s
        self._seconds = 0.0
        self._count = 0

    @property
    def is_known(self) -> bool:
        """Whether anything was measured."""
        return self._count > 0

    def add(self, phases: Iterable[tuple[str, float]]) -> None:
        """Note what a candidate took."""
        self._count += 1
        self._seconds += _CANDIDATE_S + sum(
            s / _BUILDERS if name in BUILDING_PHASES else s for name, s in phases if name != _WAITING_PHASE
        )

    def candidates_within(self, seconds: float) -> int:
        """The number of candidates that can be measured within some seconds."""
        each = self._seconds / self._count if self._count else self._expected
        return max(0, int((seconds - _BATCH_S) / (_TIME_MARGIN * each)))


def build_seconds(record: Record) -> float:
    """What making a record's machine code took."""
    return sum(seconds for name, seconds in record.phases if name in BUILDING_PHASES)


def visit_seconds(record: Record) -> float:
    """What a visit took: to load the code, check its results and time it."""
    timed = sum(seconds for name, seconds in record.phases if name not in BUILDING_PHASES and name != _WAITING_PHASE)
    return timed / max(len(record.times_of(VisitKind.SEARCH)), 1)
