"""An evolution that ends where it gains no more, or has no hope to."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.cost.learning.trained import read_shipped_model
from metasched.cost.model import CostModel
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.guesses.quick_evolution import QuickEvolution
from metasched.search.rounds.structure_breeding import StructureConfig
from metasched.search.space_protocol import Candidate
from metasched.search.strategies.evolutionary import EvolutionConfig
from tests.support.targets import AVX512

CONFIG = EvolutionConfig(population=64, generations=64, structures=StructureConfig(structures=2, bred=1, probe=8))
# Scores are -log2 of seconds.
NANOSECOND, MINUTE = 30.0, -6.0


def looked(known: float | None, config: EvolutionConfig = CONFIG) -> tuple[list[Candidate], int]:
    """What is proposed for a product, and how many rows were scored."""
    space = ms.space(ms.operator("matmul_nn", M=64, N=64, K=64), target=AVX512)
    evolution = QuickEvolution(SpaceArms(space, AVX512), CostModel(0, read_shipped_model()), 0, config, known)
    return evolution.propose(1), evolution.scored


def test_rows_breed_only_where_the_first_look_gives_hope() -> None:
    found, scored = looked(known=NANOSECOND)
    _, all_scored = looked(known=MINUTE)
    assert len(found) == 1
    assert scored < all_scored


@pytest.mark.parametrize("known", [None, MINUTE])
def test_generations_end_where_they_gain_no_more(known: float | None) -> None:
    _, scored = looked(known)
    assert scored < CONFIG.population * CONFIG.generations // 2
