"""Features of the rows that were asked for lately: a search asks for those of a row several times.

It scores a row, says what it expects of it, learns from its time, and keeps it for other tasks; and from one round to
the next it looks at the same neighbours of what is best. Working features out takes some milliseconds however few the
rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice

import numpy as np

from metasched.cost.features import Features
from metasched.search.space_protocol import Rows

# Some rounds of a search, in 10 MB.
_MOST_ROWS = 16_384

_Key = tuple[Hashable, bytes]


class RecentFeatures:
    """Features of at most `most` rows of the arms of a space; the oldest are forgotten first."""

    def __init__(self, most: int = _MOST_ROWS) -> None:
        self._most = most
        self._found: dict[_Key, Features] = {}

    def get_or_compute(self, arm: Hashable, rows: Rows, compute: Callable[[Rows], Features]) -> Features:
        """The features of an arm's rows, which are not to be changed: what is not known of them is computed, once for
        equal rows, and known from then on.
        """
        names = [(arm, row.tobytes()) for row in rows]
        new: dict[_Key, int] = {}
        for at, name in enumerate(names):
            if name not in self._found:
                new.setdefault(name, at)
        known = {name: self._found[name] for name in names if name not in new}
        if new or not names:
            made = compute(rows[list(new.values())])
            self._keep_features(list(new), made)
            if len(new) == len(names):
                return made
            known |= zip(new, made, strict=True)
        found = np.stack([known[name] for name in names])
        found.flags.writeable = False
        return found

    def _keep_features(self, names: list[_Key], features: Features) -> None:
        features.flags.writeable = False
        self._found |= zip(names, features, strict=True)
        for name in list(islice(self._found, max(0, len(self._found) - self._most))):
            del self._found[name]
