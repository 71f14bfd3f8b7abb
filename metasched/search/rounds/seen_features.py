"""What candidates look like to a model: those that look the same have the same code, but for rare exceptions.

Many a number means nothing where a loop is short.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.cost.features import Features
from metasched.search.rounds.history import History
from metasched.search.rounds.population import Keys, keys
from metasched.search.space_protocol import Candidate, Rows


class SeenFeatures:
    """The features of the candidates of a round and of all that was measured before, by which twins are known."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._measured: set[int] = set()
        self._counted = 0
        self._of_arm: dict[int, _Block] = {}

    def begin_round(self) -> None:
        """Forget the candidates that were not measured."""
        self._of_arm = {}

    def add(self, arm: int, rows: Rows, features: Features) -> None:
        """Remember what candidates of this round look like."""
        self._of_arm.setdefault(arm, _Block(arm)).add(rows, features)

    def features(self, arm: int) -> Features:
        """What was remembered of an arm in this round, in order."""
        return self._of_arm[arm].features

    def twins(self, candidates: Sequence[Candidate], taken: Sequence[Candidate] = ()) -> list[bool]:
        """Whether each has the features of an earlier one, of one taken, or of one measured. All are of this round."""
        new = self._history.features[self._counted :]
        self._measured.update(hash(row.tobytes()) for row in new)
        self._counted += len(new)
        seen = self._measured.union(self._hashes(taken))
        found = []
        for one in self._hashes(candidates):
            found.append(one in seen)
            seen.add(one)
        return found

    def _hashes(self, candidates: Sequence[Candidate]) -> list[int]:
        """A number for the features of each candidate, which is equal for equal ones."""
        found: dict[Candidate, int] = {}
        for arm in sorted({candidate.arm for candidate in candidates}):
            of_arm = [candidate for candidate in candidates if candidate.arm == arm]
            rows = np.array([candidate.row for candidate in of_arm], dtype=np.int64).reshape(len(of_arm), -1)
            found.update(zip(of_arm, self._of_arm[arm].hashes(rows), strict=True))
        return [found[candidate] for candidate in candidates]


class _Block:
    """Rows of an arm and their features, in the parts in which they came."""

    def __init__(self, arm: int) -> None:
        self._arm = arm
        self._keys: list[Keys] = []
        self._features: list[Features] = []

    def add(self, rows: Rows, features: Features) -> None:
        self._keys.append(keys(rows))
        self._features.append(features)

    @property
    def features(self) -> Features:
        """The features of all rows, in order."""
        if len(self._keys) > 1:
            self._keys, self._features = [np.concatenate(self._keys)], [np.concatenate(self._features)]
        return self._features[0]

    def hashes(self, rows: Rows) -> list[int]:
        """Raises KeyError for a row that was not added."""
        features, known, wanted = self.features, self._keys[0], keys(rows)
        order = np.argsort(known, kind="stable")
        at = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
        missing = np.flatnonzero(known[at] != wanted)
        if len(missing):
            raise KeyError(f"row {rows[missing[0]].tolist()} of arm {self._arm} is not of this round")
        return [hash(row.tobytes()) for row in features[at]]
