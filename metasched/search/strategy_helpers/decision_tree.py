"""A tree of decisions with what is known of each: visits, and the scores of what was found below it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field
from typing import TypeVar

import numpy as np

from metasched.support.data_classes import dataclass

Key = TypeVar("Key", bound=Hashable)


@dataclass
class DecisionNode:
    """Decisions up to here: `children` are what may be decided next, by a key.

    `visits` counts the passes through it, `total` sums what they found, in scores as models give them.
    """

    visits: int = 0
    total: float = 0.0
    children: dict[Hashable, DecisionNode] = field(default_factory=dict)

    def child(self, key: Hashable) -> DecisionNode:
        """The child for a decision, made if there is none."""
        return self.children.setdefault(key, DecisionNode())


class DecisionTree:
    """Nodes by their decisions, and the range of scores that was met, in which values are told."""

    def __init__(self) -> None:
        self.root = DecisionNode()
        self._lowest, self._highest = np.inf, -np.inf

    def add(self, path: Iterable[Hashable], score: float) -> None:
        """Count a pass through the decisions of a path that found a score. One that is not finite is the lowest."""
        nodes = [self.root]
        for key in path:
            nodes.append(nodes[-1].child(key))
        self.back_up(nodes, score)

    def back_up(self, nodes: Iterable[DecisionNode], score: float) -> None:
        """Count a pass through nodes that found a score."""
        if np.isfinite(score):
            self._lowest, self._highest = min(self._lowest, score), max(self._highest, score)
        found = score if np.isfinite(score) else self._lowest if np.isfinite(self._lowest) else 0.0
        for node in nodes:
            node.visits += 1
            node.total += found

    def choose_decision(self, node: DecisionNode, keys: Sequence[Key], exploration: float) -> Key:
        """The decision that PUCT takes at a node, of `keys` which are equally likely beforehand.

        That is the highest value plus exploration * prior * sqrt(visits of the node) / (1 + visits of the child), as in
        AlphaZero (Silver et al. 2018). A value lies between 0 and 1 in the range of scores so far (Schrittwieser et al.
        2020); that of a child without a visit is its parent's.
        """
        prior = 1.0 / len(keys)
        spread = exploration * prior * np.sqrt(max(node.visits, 1))
        own = self._value(node)

        def promise(key: Key) -> float:
            child = node.children.get(key)
            if child is None or not child.visits:
                return float(own + spread)
            return float(self._value(child) + spread / (1 + child.visits))

        return max(keys, key=promise)

    def _value(self, node: DecisionNode) -> float:
        if not node.visits or self._highest <= self._lowest:
            return 0.5
        mean = node.total / node.visits
        return float(np.clip((mean - self._lowest) / (self._highest - self._lowest), 0.0, 1.0))
