"""The beam is extended variable by variable and decision by decision, and what it makes of structures is bounded."""

from __future__ import annotations

import pytest

from metasched.search.space_protocol import Observation
from metasched.search.strategies.beam import BeamConfig, BeamSearch
from metasched.search.strategy_registry import StrategyInputs
from tests.support.peaks import PEAK, Knows, Peaked, batches, measured
from tests.support.toys import Toys

FEW = BeamConfig(fresh=16)


def beam(arms: Toys, model: Knows, seed: int = 0, config: BeamConfig = FEW) -> BeamSearch:
    return BeamSearch(StrategyInputs(arms, model, seed), config)


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_extended_by_values_that_none_of_them_had(seed: int) -> None:
    """Two or three passes over the variables of a hundred draws come to the best of 65,536 rows."""
    arms, model = Toys([Peaked()]), Knows()
    assert PEAK in [c.row for batch in batches(beam(arms, model, seed), arms, 3) for c in batch]
    assert len(model.asked - arms[0].drawn) > 500


def test_the_later_variables_are_as_they_were_in_the_row_that_is_extended() -> None:
    """Of two values in the first draws each is kept, until its own variable's turn comes."""
    arms, model = Toys([Peaked()]), Knows()
    strategy = beam(arms, model, config=BeamConfig(fresh=16, rows=1, values=1))
    strategy.propose(4)
    drawn = arms[0].drawn
    assert {row[1:] for row in model.asked - drawn} & {row[1:] for row in drawn}


def test_a_pass_over_decisions_comes_to_the_best_structure_and_makes_no_more_than_it_may() -> None:
    """Each decision counts by itself here, so the best option of one is the best whatever the others are."""
    wanted = (2, 3, 0, 1)
    arms = Toys([Peaked(sum(abs(n // 4**p % 4 - wanted[3 - p]) for p in range(4))) for n in range(256)])
    for made in (4, 64):
        model = Knows()
        strategy = beam(arms, model, config=BeamConfig(made=made, fresh=16))
        first = len(strategy.structures.first_structures)
        batch = strategy.propose(16)
        assert len({arm.name for arm in arms if arm.drawn}) <= first + made
        if made == 64:
            assert min(arms[c.arm].flavour for c in batch) == 0


def test_a_pass_begins_where_the_last_one_ended() -> None:
    """The structures measured fastest are the first completions, so a few new ones a batch come to the best."""
    wanted = (2, 3, 0, 1)
    arms = Toys([Peaked(sum(abs(n // 4**p % 4 - wanted[3 - p]) for p in range(4))) for n in range(256)])
    strategy, best = beam(arms, Knows(), config=BeamConfig(made=12, fresh=16)), []
    for _ in range(8):
        batch = strategy.propose(8)
        best.append(min(arms[c.arm].flavour for c in batch))
        strategy.observe(measured(arms, batch))
    assert best[0] > min(best) == 0


def test_a_structure_that_has_no_legal_row_is_passed_over() -> None:
    class Illegal(Peaked):
        def mask(self, rows):  # type: ignore[no-untyped-def]
            return rows[:, 0] < 0

    arms = Toys([Illegal(), Peaked()])
    strategy = beam(arms, Knows())
    found = strategy.propose(6)
    assert {c.arm for c in found} == {1}
    strategy.observe([Observation(c, None) for c in found])
    assert len(strategy.propose(6)) == 6
