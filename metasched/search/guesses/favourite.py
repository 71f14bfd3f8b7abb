"""The candidates of a space that the cost model scores highest before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from metasched.cost.learning.trained import read_shipped_model
from metasched.cost.model import CostModel, Model
from metasched.ir import query
from metasched.ir.program import Program
from metasched.schedule.trace import Trace
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.guesses.quick_evolution import QuickEvolution
from metasched.search.rounds.structure_breeding import StructureConfig
from metasched.search.space_protocol import Candidate
from metasched.search.strategies.evolutionary import EvolutionConfig
from metasched.search.strategies.random import RandomSearch

# A search looks at more structures, round by round. A guess is waited for: with twice as many of everything it takes
# twice as long, and what it finds is estimated to be within 4 % of as fast, on either side.
_QUICK_EVOLUTION = EvolutionConfig(population=1536, structures=StructureConfig(structures=8, bred=4))
# Element-wise stages of which a structure is made in a moment. One of more takes longer in proportion, and says little
# more: of most stages only whether their readers compute them. Of these, fewer structures are looked at, so that the
# guess of a long chain takes time in proportion to it. Mandelbrot's map, of 20 steps or 56 stages, is compiled in half
# of the time that eight structures take; calls of it and of Newton's iterations take .87 to 1.04 of their time.
_MANY_STAGES = 16
# The first of the space and one that is drawn.
_FEWEST_STRUCTURES = 2
# How many are proposed where the first is of no use, and drawn where these are not, either.
_FURTHER_PROPOSALS = 16
_DRAWN_CANDIDATES = 64


def favourites(space: SpaceArms, seed: int = 0, known: float | None = None) -> Iterator[Trace]:
    """The traces that a short evolutionary search by the model alone likes best, the best first. Where its first look
    promises nothing beside what is known, of this score (-log2 of its seconds), they are the best of that look.

    It is made in time for the first one; who asks for another waits for the search again. What it likes may all be of
    one kind that no machine runs: after some of it there are draws, the best of them first. There are none where no
    candidate is legal.
    """
    if space.first() is None:
        return
    model = CostModel(seed, read_shipped_model())
    evolution = QuickEvolution(space, model, seed, _effort(space.program), known)
    first = evolution.propose(1)
    yield from (space.trace_of(one) for one in first)
    more = evolution.propose(_FURTHER_PROPOSALS) if first else []
    yield from (space.trace_of(one) for one in more if one not in first)
    drawn = RandomSearch(space, seed).propose(_DRAWN_CANDIDATES)
    yield from map(space.trace_of, _best_first(space, evolution.model, drawn))


def _effort(program: Program) -> EvolutionConfig:
    """How much of a program's space to look at."""
    blocks = query.blocks(program.func)
    if len(blocks) <= _MANY_STAGES or any(block.reducer is not None for block in blocks):
        return _QUICK_EVOLUTION
    whole, share = _QUICK_EVOLUTION.structures, _MANY_STAGES / len(blocks)
    structures = max(_FEWEST_STRUCTURES, round(whole.structures * share))
    return replace(
        _QUICK_EVOLUTION, structures=replace(whole, structures=structures, bred=max(1, round(whole.bred * share)))
    )


def _best_first(space: SpaceArms, model: Model, candidates: Sequence[Candidate]) -> list[Candidate]:
    features = [space[one.arm].features(np.array([one.row], np.int64).reshape(1, -1)) for one in candidates]
    scores = model.predict(np.concatenate(features)) if features else np.empty(0)
    return [candidates[n] for n in np.argsort(-scores, kind="stable")]
