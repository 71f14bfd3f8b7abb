"""What a model expected of the candidates of a batch is recorded with them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from metasched.cost.learning.trained import read_shipped_model
from metasched.cost.model import CostModel
from metasched.database.base import Database
from metasched.search.space_protocol import Strategy
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategy_registry import StrategyInputs
from tests.support.toy_search import ToyRunner, ToySpace, key, toy_session


def test_what_the_model_expected_is_recorded_before_it_learns_of_the_batch(database: Database) -> None:
    space = ToySpace()

    def guided(given: StrategyInputs) -> Strategy:
        return Evolution(given.arms, given.model, 0, EvolutionConfig(population=64, generations=1), given.phases)

    with toy_session(database, ToyRunner(space), make=guided) as session:
        session.run(20)
    untrained = CostModel(0, read_shipped_model())
    for record in database.records(key().task):
        arm, *row = json.loads(record.trace)
        features = space.arms[arm].features(np.array([row], np.int64))
        at_first = float(np.exp2(-untrained.predict(features)[0]))
        assert (record.expected_seconds == pytest.approx(at_first)) == (record.batch == 0)
