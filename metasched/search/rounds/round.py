"""One round of a search: what a strategy looks at before it proposes a batch, scored by the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.model import Model
from metasched.search.rounds.history import History
from metasched.search.rounds.population import Positions, distinct, draw, draw_parents, keys, legal, positions_unlike
from metasched.search.rounds.seen_features import SeenFeatures
from metasched.search.rounds.selection import Pool
from metasched.search.space_protocol import Arms, Candidate, Rows

# Rows and their features.
Described = tuple[Rows, Features]


class Round:
    """The rows that were scored in a round, by arm, and what was measured before it.

    Args:
        arms: what is searched.
        history: what was measured; the model has learned from it.
        model: what scores rows.
        seen: by which twins are known; what it has of an earlier round is forgotten.
        seed: of the search. With the number of observations it decides every draw, by `rng` or by `stream`.
        purpose: numbers that tell rounds with the same observations apart.
    """

    def __init__(
        self, arms: Arms, history: History, model: Model, seen: SeenFeatures, seed: int, purpose: Sequence[int] = ()
    ) -> None:
        self.arms = arms
        self.history = history
        self.pool = Pool(lambda arm: keys(history.rows(arm)))
        self.rng = np.random.default_rng([seed, len(history), *purpose])
        self.scored = 0
        self.taken: list[Candidate] = []  # of the batch, before the rest is looked for
        self._model = model
        self._seen = seen
        self._seed = seed
        seen.begin_round()

    def stream(self, arm: int, *purpose: int) -> np.random.Generator:
        """Random numbers for an arm: of its structure, as its number differs between processes."""
        return np.random.default_rng([self._seed, crc32(self.arms[arm].name.encode()), *purpose])

    # --- scoring

    def add(self, rows: Mapping[int, Rows]) -> None:
        """Score rows that are distinct and not in the pool, and put them there."""
        self.scored += sum(len(some) for some in rows.values())
        self.add_described({n: (some, self.arms[n].features(some)) for n, some in rows.items() if len(some)})

    def add_described(self, found: Mapping[int, Described]) -> None:
        """Put rows into the pool, scored in one call of the model."""
        if not found:
            return
        scores = self._predict([features for _, features in found.values()])
        for (n, (rows, features)), some in zip(found.items(), scores, strict=True):
            self._put_rows(n, rows, features, some)

    def describe(self, several: Sequence[Mapping[int, Rows]]) -> None:
        """Have the features of rows at hand that are scored one after another: each arm's are worked out together."""
        for n in dict.fromkeys(n for rows in several for n in rows):
            together = np.concatenate([rows[n] for rows in several if n in rows])
            if len(together):
                self.arms[n].features(distinct(together, keys(together[:0])))

    def score(self, rows: Mapping[int, Rows]) -> dict[int, Array]:
        """The scores of rows of arms, whether known or not; those that are new are put into the pool."""
        given = {n: some for n, some in rows.items() if len(some)}
        self.scored += sum(len(some) for some in given.values())
        features = {n: self.arms[n].features(some) for n, some in given.items()}
        scores = dict(zip(given, self._predict(list(features.values())), strict=True))
        for n, some in given.items():
            new = positions_unlike(some, self.pool.known_keys(n))
            if len(new):
                self._put_rows(n, some[new], features[n][new], scores[n][new])
        return {n: scores.get(n, np.empty(0)) for n in rows}

    def _predict(self, features: Sequence[Features]) -> list[Array]:
        """The scores of each block of features, by one call of the model."""
        if not features:
            return []
        scores = self._model.predict(np.concatenate(features))
        return np.split(scores, np.cumsum([len(some) for some in features])[:-1])

    def _put_rows(self, arm: int, rows: Rows, features: Features, scores: Array) -> None:
        if len(rows):
            self.pool.add(arm, rows, scores)
            self._seen.add(arm, rows, features)

    def described_rows(self, arm: int, chosen: Positions | None = None) -> Described:
        """An arm's rows in the pool with their features: all of them, or those at some positions."""
        rows, features = self.pool.rows(arm), self._seen.features(arm)
        return (rows, features) if chosen is None else (rows[chosen], features[chosen])

    # --- what is promising

    def ranked_arms(self) -> list[int]:
        """The arms of the pool, the most promising first, by prediction or measurement."""
        hope = [
            (-max(self.pool.highest_score(n), self.history.best_score(n)), place, n)
            for place, n in enumerate(self.pool.arms)
        ]
        return [n for _, _, n in sorted(hope)]

    def best_rows(self, arm: int, count: int) -> Rows:
        """Up to `count` of an arm's rows: its fastest measured, then those scored highest."""
        best = self.pool.rows(arm)[np.argsort(-self.pool.scores(arm), kind="stable")[:count]]
        return np.concatenate([self.history.elite(arm, count // 2), best])[:count]

    def draw_candidates(self, count: int) -> list[Candidate]:
        """Some of the pool's rows, the better ones more often, not distinct."""
        arm_of, row_of, scores = self.pool.population(self.pool.arms)
        picks = draw_parents(self.rng, scores, count) if len(scores) else np.empty(0, np.int64)
        return [self._candidate(int(arm_of[at]), row_of, int(at)) for at in picks]

    def _candidate(self, arm: int, row_of: Positions, at: int) -> Candidate:
        return Candidate(arm, tuple(self.pool.rows(arm)[row_of[at]].tolist()))

    # --- twins

    def twins(self, candidates: Sequence[Candidate], taken: Sequence[Candidate]) -> list[bool]:
        """Whether each has the features of an earlier one, of one taken, or of one measured."""
        return self._seen.twins(candidates, taken)

    def without_twins(self, candidates: Sequence[Candidate], taken: Sequence[Candidate] = ()) -> list[Candidate]:
        return [c for c, is_twin in zip(candidates, self.twins(candidates, taken), strict=True) if not is_twin]

    # --- rows to begin with

    def adopt_rows(self, rng: np.random.Generator, arm: int, donor: int, rows: Rows) -> Rows:
        """Rows of another arm carried over to one, as far as they are legal there."""
        return legal(self.arms[arm], self.arms[arm].adopt(rng, self.arms[donor], rows))

    def start(self, arm: int, fresh: int, elite: int, donors: int = 2) -> Rows:
        """Rows of an arm that are not in the pool: its fastest measured, those of other arms, and `fresh` draws."""
        drawn = draw(self.rng, self.arms[arm], max(1, fresh))
        fastest = self.history.elite(arm, elite)
        others = [n for n in self.history.arms[: donors + 1] if n != arm][:donors]
        adopted = [self.adopt_rows(self.rng, arm, n, self.history.elite(n, elite)) for n in others]
        return distinct(np.concatenate([fastest, *adopted, drawn]), self.pool.known_keys(arm))
