"""The choice of a batch from a round: high scores that are unlike one another, new structures, random picks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from metasched.search.rounds.round import Round
from metasched.search.rounds.selection import choose_unlike
from metasched.search.short_list import SHORT_LIST
from metasched.search.space_protocol import Candidate

# Draws that a batch's random picks are taken from.
EXPLORED = 64
# An arm whose best row is predicted to take so many times as long as the best of all is not tried for its own sake: as
# long as little was measured, and later.
HOPELESS = 2.5
HOPELESS_LATER = 1.5

# Chooses up to so many more candidates, unlike those taken.
Choose = Callable[[Round, int, Sequence[Candidate]], list[Candidate]]


def unlike_best(now: Round, count: int, taken: Sequence[Candidate]) -> list[Candidate]:
    """The best rows of a round's pool that are unlike one another, and unlike those taken; twins come last."""
    return choose_unlike(now.pool, count, taken, lambda given: now.twins(given, taken))


def with_newcomers(
    now: Round, drawn: Sequence[Candidate], count: int, explore: float, choose: Choose = unlike_best
) -> list[Candidate]:
    """A batch of up to `count`: structures that were never tried, what `choose` takes, and picks among those drawn.

    `explore` is the share of the picks, after the short list of the first candidates. None is like what the round has
    taken before.
    """
    later = len(now.history) >= SHORT_LIST
    chosen = newcomers(now, HOPELESS_LATER, count // 4) if later else newcomers(now, HOPELESS, count // 2)
    picked = round(count * explore) if later else 0
    chosen += choose(now, count - len(chosen) - picked, [*now.taken, *chosen])
    if picked:
        before = [*now.taken, *chosen]
        new = [c for c in dict.fromkeys(drawn) if c not in now.history and c not in set(before)]
        chosen += now.without_twins(new, before)[: min(picked, count - len(chosen))]
    return chosen + choose(now, count - len(chosen), [*now.taken, *chosen])


def newcomers(now: Round, hopeless: float, count: int) -> list[Candidate]:
    """The best row of each of some arms that were never measured and may be good, the most promising first."""
    best = [entry for entry in map(now.pool.best_unmeasured, now.pool.arms) if entry is not None]
    found = sorted(best, key=lambda entry: -entry[0])
    good = [c for score, c in found if score >= found[0][0] - np.log2(hopeless)]
    tried = {c.arm for c in now.taken}
    new = [c for c in good if c.arm not in tried and not now.history.measured_count(c.arm)]
    return now.without_twins(new[: 2 * count], now.taken)[:count]
