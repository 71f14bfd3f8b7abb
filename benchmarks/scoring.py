"""How fast a search scores candidates: candidates a second on one core, over whole generations.

Counted are the distinct legal rows that were scored. The time is that of everything a generation does with them: draw,
mutate, cross over, repair, mask, de-duplicate, features, predict; the model's training is timed beside it.

Then what a batch of 8 takes with every strategy: seconds of CPU time, training included, in the median over the batches
after the first; `ratio` is that of the default strategy to it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.registry import Options, Result
from benchmarks.tuning import open_space
from metasched.cost.learning.trained import read_shipped_model
from metasched.cost.model import CostModel
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.phases import Phase, Phases
from metasched.search.space_protocol import Candidate, Observation
from metasched.search.strategies.evolutionary import Evolution
from metasched.search.strategy_registry import DEFAULT_STRATEGY, STRATEGIES, StrategyInputs


def run(options: Options) -> Iterator[Result]:
    rounds = 2 if options.quick else 10
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    space = open_space("dense_relu", options.threads)
    phases = Phases()
    strategy = Evolution(space.arms, CostModel(0, read_shipped_model()), seed=0, phases=phases)
    rng = np.random.default_rng(0)
    strategy.observe(made_up(rng, strategy.propose(64)))
    strategy.propose(8)  # whatever is compiled or cached at first
    rates, cpu_rates = [], []
    for number in range(1, rounds + 1):
        strategy.seed = number  # another generation from the same measurements: nothing is trained meanwhile
        before = strategy.scored
        start, cpu_start = time.perf_counter(), time.process_time()
        strategy.propose(8)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        rates.append((strategy.scored - before) / seconds)
        cpu_rates.append((strategy.scored - before) / cpu_seconds)
    yield {
        "case": "dense_relu, generations of the evolutionary search",
        "candidates_per_s": statistics.median(rates),
        "candidates_per_cpu_s": statistics.median(cpu_rates),
        "rounds": rounds,
        "arms": len(space.arms),
        "scored": strategy.scored,
        "training_s": phases.seconds()[Phase.MODEL.value],
    }
    yield from batches(space, 4 if options.quick else 8)


def batches(space: SpaceArms, rounds: int) -> Iterator[Result]:
    """What a batch costs with each strategy, after the first, for which most is made."""
    names = [DEFAULT_STRATEGY, *(name for name in STRATEGIES.names() if name != DEFAULT_STRATEGY)]
    seconds = {name: batch_seconds(space, name, rounds) for name in names}
    for name, found in seconds.items():
        yield {
            "case": f"{name}, a batch of 8",
            "cpu_s": found,
            "peer": DEFAULT_STRATEGY,
            "peer_cpu_s": seconds[DEFAULT_STRATEGY],
            "ratio": seconds[DEFAULT_STRATEGY] / found,
        }


def batch_seconds(space: SpaceArms, name: str, rounds: int) -> float:
    """The median of CPU seconds that one strategy takes for a batch."""
    strategy = STRATEGIES.get(name)(StrategyInputs(space.arms, CostModel(0, read_shipped_model())))
    rng, seconds = np.random.default_rng(0), []
    for _ in range(rounds + 1):
        start = time.process_time()
        found = strategy.propose(8)
        seconds.append(time.process_time() - start)
        strategy.observe(made_up(rng, found))
    return statistics.median(seconds[1:])


def made_up(rng: np.random.Generator, candidates: Sequence[Candidate]) -> list[Observation]:
    """Times for the model to learn: scoring costs the same whatever they are."""
    return [Observation(candidate, float(rng.lognormal(-6.0, 0.5))) for candidate in candidates]
