"""A strategy with random draws beside it, for a search that has stagnated: what it breeds comes from what it knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from metasched.database.record import Role
from metasched.search.proposed_candidates import proposed_by
from metasched.search.space_protocol import Arms, Candidate, LooksAhead, Observation, Strategy

# A candidate, and why it is proposed.
Proposed = tuple[Candidate, Role]


class WiderStrategy:
    """A strategy, and another one that draws at random; both observe everything.

    Args:
        strategy: proposes all of a batch as a rule.
        elsewhere: proposes half of a batch once the search has stagnated.
        arms: what the strategy proposes candidates of.
    """

    def __init__(self, strategy: Strategy, elsewhere: Strategy, arms: Arms) -> None:
        self._strategy = strategy
        self._elsewhere = elsewhere
        self._arms = arms

    def observe(self, results: Sequence[Observation]) -> None:
        """Have both observe the results of a batch."""
        self._strategy.observe(results)
        self._elsewhere.observe(results)

    def look_ahead(self) -> None:
        """Have the strategy do what needs no results of the batch proposed last, if it can."""
        if isinstance(self._strategy, LooksAhead):
            self._strategy.look_ahead()

    def propose(self, count: int) -> Iterator[list[Proposed]]:
        """So many candidates or fewer, a part of them as soon as it is chosen."""
        for part in proposed_by(self._strategy, count, self._arms):
            yield [(candidate, Role.CANDIDATE) for candidate in part]

    def propose_wider(self, count: int) -> Iterator[list[Proposed]]:
        """The same for a search that is stagnant: every other one is drawn from all structures. So a batch that is cut
        short shows by its first two which it is.
        """
        usual = list(chain.from_iterable(proposed_by(self._strategy, count - count // 2, self._arms)))
        drawn = [candidate for candidate in self._elsewhere.propose(count) if candidate not in set(usual)]
        pairs = zip_longest(
            ((candidate, Role.CANDIDATE) for candidate in usual),
            ((candidate, Role.ELSEWHERE) for candidate in drawn[: count - len(usual)]),
        )
        yield [proposed for pair in pairs for proposed in pair if proposed is not None]
