"""A network of one size, as tuning sees it."""

from __future__ import annotations

from typing import Protocol

from metasched.database.database_registry import DatabaseLike
from metasched.graph.code.choices import Choices
from metasched.graph.ir import Graph
from metasched.graph.running.weights import WeightStore
from metasched.graph.tuning.settling import Settlement
from metasched.graph.tuning.strip_turns import StripSettlement
from metasched.target import Target


class TunedMember(Protocol):
    """A network of one size, as tuning sees it; `Network` says what its parts are."""

    target: Target
    choices: Choices
    weights: WeightStore | None

    @property
    def optimised(self) -> Graph: ...

    def schedule_by(self, choices: Choices) -> None: ...

    def settle(self, choices: Choices, db: DatabaseLike) -> Settlement: ...

    def settle_strips(self, db: DatabaseLike, most: int) -> StripSettlement: ...

    def settling_s(self) -> float: ...
