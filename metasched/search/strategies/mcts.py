"""Monte-Carlo tree search over decisions, with the model as the value.

The levels of the tree are the decisions of a structure in the order in which they are made, and then the variables of
its rows. A simulation goes down by PUCT (Silver et al. 2018) until it makes a decision for the first time, completes it
by draws from the prior (a new structure, or rows), and counts the best score among these for every decision on the way.
A variable has many values: a node has as many children as the square root of its visits (progressive widening, Coulom
2007), and a new one is the value that the best of the draws has. All rows that were scored are candidates of the batch.

The tree is made anew in every batch: what was measured is counted first, with its time as the score. So what earlier
simulations believed is forgotten, what was measured is not, and nothing is kept between batches.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field

import numpy as np

from metasched.search.rounds.batch_choice import EXPLORED, with_newcomers
from metasched.search.rounds.guided import GuidedSearch
from metasched.search.rounds.population import legal
from metasched.search.rounds.round import Round
from metasched.search.space_protocol import Arms, Candidate, Rows, Strategy
from metasched.search.strategy_helpers.decision_tree import DecisionNode, DecisionTree
from metasched.search.strategy_registry import StrategyInputs
from metasched.support.data_classes import dataclass

# The decisions of a structure: the address of each, and the position of the option that was taken.
Path = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class TreeConfig:
    """`simulations` a batch, of `rollouts` rows each; up to `made` new structures.

    `exploration` weighs what was rarely tried. `explore` is the share of a batch picked at random.
    """

    simulations: int = 48
    rollouts: int = 64
    made: int = 16
    exploration: float = 0.5
    explore: float = 0.1


class TreeSearch(GuidedSearch):
    """The strategy `mcts`."""

    def __init__(self, given: StrategyInputs, config: TreeConfig | None = None) -> None:
        super().__init__(given.arms, given.model, given.seed, given.phases)
        self.config = config or TreeConfig()

    def look(self, now: Round, count: int) -> list[Candidate]:
        self.structures.begin(now)
        drawn = now.draw_candidates(EXPLORED)
        simulations = _Simulations(now, self.config)
        for _ in range(self.config.simulations if simulations.completed else 0):
            simulations.run()
        return with_newcomers(now, drawn, count, self.config.explore)


@dataclass
class _Simulations:
    """The tree of a round. `completed` has an arm for each path of structural decisions, `dead` those without one."""

    now: Round
    config: TreeConfig
    tree: DecisionTree = field(default_factory=DecisionTree)
    completed: dict[Path, int] = field(default_factory=dict)
    dead: set[Path] = field(default_factory=set)
    made: int = 0

    def __post_init__(self) -> None:
        for arm in self.now.ranked_arms():
            self._enter_structure(arm)
            self.tree.add(structure_path(self.now.arms, arm), self.now.pool.highest_score(arm))
        for candidate, seconds in self.now.history.seconds():
            self.tree.add(full_path(self.now.arms, candidate), -float(np.log2(seconds)))

    def _enter_structure(self, arm: int) -> None:
        path = structure_path(self.now.arms, arm)
        for length in range(len(path) + 1):
            self.completed.setdefault(path[:length], arm)

    def run(self) -> None:
        """One simulation."""
        nodes: list[DecisionNode] = [self.tree.root]
        path: Path = ()
        while (arm := self.completed.get(path)) is not None:
            keys = self._options(arm, path)
            if not keys:
                break
            path = (*path, self.tree.choose_decision(nodes[-1], keys, self.config.exploration))
            nodes.append(nodes[-1].child(path[-1]))
        if arm is None:
            self.tree.back_up(nodes, self._expand_path(path))
        elif len(structure_path(self.now.arms, arm)) == len(path):
            self._descend_rows(arm, nodes)
        else:
            self.tree.back_up(nodes, -np.inf)

    # --- structures

    def _options(self, arm: int, path: Path) -> list[tuple[str, int]]:
        """What may be decided after a path, in random order: all that is possible, while structures may be made."""
        choices = self.now.arms.choices(arm)
        if len(path) == len(choices):
            return []
        here = choices[len(path)]
        found = [(here.address, n) for n in self.now.rng.permutation(len(here.options)).tolist()]
        may_make = self.made < self.config.made
        return [k for k in found if (*path, k) in self.completed or (may_make and (*path, k) not in self.dead)]

    def _expand_path(self, path: Path) -> float:
        """Make a structure with the decisions of a path; returns the best score of its draws."""
        self.made += 1
        choices = self.now.arms.choices(self.completed[path[:-1]])
        decisions = {c.address: c.options[n] for c, (_, n) in zip(choices, path, strict=False)}
        arm = self.now.arms.of(self.now.rng, decisions)
        if arm is None or structure_path(self.now.arms, arm)[: len(path)] != path:
            self.dead.add(path)
            return -np.inf
        self._enter_structure(arm)
        if not self.now.pool.has_rows(arm):
            self.now.add({arm: self.now.start(arm, self.config.rollouts, self.config.rollouts // 4)})
        return self.now.pool.highest_score(arm) if self.now.pool.has_rows(arm) else -np.inf

    # --- rows

    def _descend_rows(self, arm: int, nodes: list[DecisionNode]) -> None:
        """Go down the variables of an arm's rows as far as their values are known, and try new ones below."""
        groups = self.now.arms[arm].groups
        fixed: list[tuple[int, ...]] = []
        while len(fixed) < len(groups) and len(nodes[-1].children) ** 2 > nodes[-1].visits:
            keys = list(nodes[-1].children)
            key = self.tree.choose_decision(nodes[-1], keys, self.config.exploration)
            nodes.append(nodes[-1].child(key))
            fixed.append(key)  # type: ignore[arg-type]
        rows = self._rollouts(arm, groups[: len(fixed)], fixed)
        scores = self.now.score({arm: rows})[arm]
        if not len(scores):
            self.tree.back_up(nodes, -np.inf)
            return
        best = int(np.argmax(scores))
        if len(fixed) < len(groups):
            nodes.append(nodes[-1].child(_values(rows[best], groups[len(fixed)])))
        self.tree.back_up(nodes, float(scores[best]))

    def _rollouts(self, arm: int, groups: Sequence[Sequence[int]], fixed: Sequence[tuple[int, ...]]) -> Rows:
        """Legal draws in which the first variables have fixed values."""
        rows = self.now.arms[arm].sample(self.now.rng, self.config.rollouts)
        columns = [column for group in groups for column in group]
        rows[:, columns] = [value for values in fixed for value in values]
        rows = np.unique(legal(self.now.arms[arm], rows), axis=0)
        kept: Rows = rows[(rows[:, columns] == [value for values in fixed for value in values]).all(axis=1)]
        return kept


def structure_path(arms: Arms, arm: int) -> Path:
    """The decisions of a structure."""
    return tuple((choice.address, choice.taken) for choice in arms.choices(arm))


def full_path(arms: Arms, candidate: Candidate) -> tuple[Hashable, ...]:
    """The decisions of a candidate: those of its structure, then the values of its variables."""
    row = np.array(candidate.row, dtype=np.int64)
    return (*structure_path(arms, candidate.arm), *(_values(row, group) for group in arms[candidate.arm].groups))


def _values(row: Rows, group: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(row[column]) for column in group)


def strategy(given: StrategyInputs) -> Strategy:
    """The strategy `mcts`, as it is by default. Raises ValueError for a space without an arm."""
    return TreeSearch(given)
