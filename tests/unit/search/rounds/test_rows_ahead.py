"""What is looked at before the last batch is timed: when that is, and that a search that goes on does the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from metasched.cost.model import CostModel
from metasched.database.database_registry import open_database
from metasched.search.space_protocol import Candidate, Observation, Strategy
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategy_registry import StrategyInputs
from tests.support.toy_search import ToyRunner, ToySpace, tuned


class LookingAhead(Evolution):
    """Keeps in what order it was asked, and how many traces had been timed when it looked ahead."""

    def __init__(self, given: StrategyInputs, runner: ToyRunner) -> None:
        super().__init__(given.arms, CostModel(), 0, EvolutionConfig(population=64, generations=1), given.phases)
        self.runner = runner
        self.asked: list[str] = []

    def propose_in_parts(self, count: int) -> Iterator[list[Candidate]]:
        self.asked.append("propose")
        return super().propose_in_parts(count)

    def look_ahead(self) -> None:
        self.asked.append(f"look ahead after {len(self.runner.traces)}")
        super().look_ahead()

    def observe(self, results: Sequence[Observation]) -> None:
        self.asked.append("observe")
        super().observe(results)


def test_a_strategy_looks_ahead_before_anything_of_its_batch_is_timed(tmp_path: Path) -> None:
    """While it is built, and not where no batch follows. A search that goes on has it look ahead as it did before."""
    made: list[LookingAhead] = []

    def make(given: StrategyInputs) -> Strategy:
        made.append(LookingAhead(given, runner))
        return made[-1]

    runner = ToyRunner(ToySpace())
    with open_database(f"sqlite:///{tmp_path}/one.db") as database:
        tuned(database, 16, runner, make=make)
    first, asked = len(runner.traces), made[0].asked
    assert first == 16
    assert asked[:3] == ["propose", "look ahead after 0", "observe"]
    assert not asked[-2].startswith("look ahead")
    with open_database(f"sqlite:///{tmp_path}/one.db") as database:
        tuned(database, 20, runner, make=make)
    before = asked.count("observe") - 2
    assert made[1].asked[: before + 3] == [*["observe"] * before, "look ahead after 16", "observe", "propose"]
