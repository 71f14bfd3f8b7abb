"""What strategies that are guided by a model have in common: they learn, look, choose, and fill a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from metasched.cost.model import Model
from metasched.search.phases import Phase, Phases
from metasched.search.rounds.batch_choice import EXPLORED, unlike_best
from metasched.search.rounds.history import History
from metasched.search.rounds.population import distinct, draw, legal
from metasched.search.rounds.round import Round
from metasched.search.rounds.seen_features import SeenFeatures
from metasched.search.rounds.structure_breeding import StructureBreeding, StructureConfig
from metasched.search.space_protocol import Arms, Candidate, Observation, Rows

# Where a batch is short: how often more is looked for in vain, what of it is structures, draws of one, and the most
# promising ones that are looked into.
_TRIES = 4
_MORE_ARMS = 12
_MORE_ROWS = 1024
_LOOKED_INTO = 8


class GuidedSearch(ABC):
    """A strategy that scores rows by a model and proposes the best; subclasses say where it looks, and what it takes.

    Args:
        arms: what to search.
        model: trained here on what is observed; until then its untrained score ranks.
        seed: with the observations, decides every proposal.
        phases: where the time that training takes is counted.
        structures: how many structures a round looks at.

    Raises ValueError for a space without an arm.
    """

    def __init__(
        self,
        arms: Arms,
        model: Model,
        seed: int,
        phases: Phases | None = None,
        structures: StructureConfig | None = None,
    ) -> None:
        if arms.first() is None:
            raise ValueError("nothing to search: the space has no sketch")
        self.arms = arms
        self.model = model
        self.seed = seed
        self.phases = phases or Phases()
        self.history = History(arms)
        self.structures = StructureBreeding(arms, seed, structures or StructureConfig())
        # The number of observations before each batch so far.
        self.lengths = [0]
        self.scored = 0
        self._seen = SeenFeatures(self.history)
        self._fitted = 0

    @abstractmethod
    def look(self, now: Round, count: int) -> list[Candidate]:
        """Look for rows in a round, and choose up to `count` that were not measured; fewer where there are no more."""

    def observe(self, results: Sequence[Observation]) -> None:
        self.history.add(results)
        if len(self.history) > self.lengths[-1]:
            self.lengths.append(len(self.history))

    def look_near(self, now: Round, count: int) -> Iterator[list[Candidate]]:
        """Of a batch of `count`, those that need no look at the whole space: they are built while `look` goes on, each
        part of them as soon as it is chosen.

        By default there are none.
        """
        return iter(())

    def propose(self, count: int) -> list[Candidate]:
        return [candidate for part in self.propose_in_parts(count) for candidate in part]

    def propose_in_parts(self, count: int) -> Iterator[list[Candidate]]:
        """What `propose` returns: first what `look_near` finds, if it finds any."""
        now = self.open_round(self.history, self._seen)
        for near in self.look_near(now, count):
            now.taken += near
            yield near
        left = count - len(now.taken)
        chosen = self.look(now, left)
        chosen += self._fill(now, left - len(chosen), [*now.taken, *chosen]) if len(chosen) < left else []
        self.scored += now.scored
        yield chosen

    def open_round(self, history: History, seen: SeenFeatures, purpose: Sequence[int] = ()) -> Round:
        """A round that knows a history, from which the model learns first; `purpose` as of `Round`."""
        if len(history) != self._fitted:
            with self.phases.timed(Phase.MODEL):
                self.model.fit(history.times)
            self._fitted = len(history)
        return Round(self.arms, history, self.model, seen, self.seed, purpose)

    def begin(self, now: Round, active: int, fresh: int, elite: int) -> tuple[list[int], list[Candidate]]:
        """Look at structures, and open the best: as `open_best`."""
        self.structures.begin(now)
        self.structures.breed(now)
        return self.open_best(now, active, fresh, elite)

    def open_best(self, now: Round, active: int, fresh: int, elite: int) -> tuple[list[int], list[Candidate]]:
        """Look at rows of the `active` structures that look best: up to `elite` measured ones, and `fresh` draws.

        Returns those structures, and some of the draws.
        """
        chosen = now.ranked_arms()[:active]
        now.add({n: now.start(n, fresh // len(chosen), elite) for n in chosen})
        return chosen, now.draw_candidates(EXPLORED)

    def _fill(self, now: Round, count: int, taken: Sequence[Candidate]) -> list[Candidate]:
        """Up to `count` more, from wherever there are any: structures not looked at, draws, and what is next to what
        was measured."""
        found: list[Candidate] = []
        tries = _TRIES
        while len(found) < count and tries:
            self.structures.more(now, max(_MORE_ARMS, count - len(found)))
            now.add({n: self._more_rows(now, n) for n in now.ranked_arms()[:_LOOKED_INTO]})
            more = unlike_best(now, count - len(found), [*taken, *found])
            found += more
            tries -= not more
        return found

    def _more_rows(self, now: Round, arm: int) -> Rows:
        """Rows of an arm that are not in the pool: draws, and changes of those that were measured."""
        of_arm, measured = self.arms[arm], self.history.rows(arm)
        near = np.concatenate([measured[:0], *(legal(of_arm, of_arm.mutate(now.rng, measured)) for _ in range(_TRIES))])
        return distinct(np.concatenate([near, draw(now.rng, of_arm, _MORE_ROWS)]), now.pool.known_keys(arm))
