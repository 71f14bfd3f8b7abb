"""The machine code of the candidates that were built last, so that measuring one of them again builds nothing."""

from __future__ import annotations

import threading
from collections import OrderedDict

from metasched.measure.records import MeasureCandidate
from metasched.measure.workers.protocol import Message

# Machine code of hundreds of candidates.
_MOST_BYTES = 8 << 20


class RecentlyBuilt:
    """What builders answered for the last candidates, up to `most_bytes` of machine code. Threads may share it."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._answers: OrderedDict[MeasureCandidate, Message] = OrderedDict()
        self._checked: set[MeasureCandidate] = set()
        self._lock = threading.Lock()

    def get(self, candidate: MeasureCandidate) -> Message | None:
        """The answer with a candidate's machine code; None where it was not built, or was dropped for later ones."""
        with self._lock:
            found = self._answers.get(candidate)
            if found is not None:
                self._answers.move_to_end(candidate)
            return found

    def add(self, candidate: MeasureCandidate, answer: Message) -> None:
        """Keep an answer, instead of those that were used longest ago."""
        with self._lock:
            before = self._answers.pop(candidate, None)
            self._bytes += len(answer.blob) - (0 if before is None else len(before.blob))
            self._answers[candidate] = answer
            while self._bytes > self._most:
                candidate, dropped = self._answers.popitem(last=False)
                self._checked.discard(candidate)
                self._bytes -= len(dropped.blob)

    def note_checked(self, candidate: MeasureCandidate) -> None:
        """A candidate computes what it should as a whole, too. It is forgotten with its machine code."""
        with self._lock:
            if candidate in self._answers:
                self._checked.add(candidate)

    def is_checked(self, candidate: MeasureCandidate) -> bool:
        """Whether that is known of a candidate."""
        with self._lock:
            return candidate in self._checked
