"""One set of worker processes for the searches of a file: starting them takes longer than a search of few trials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from metasched.cost.model import Model
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan
from metasched.search.arms import transferred
from metasched.search.rounds.structure_breeding import StructureConfig
from metasched.search.space_protocol import Arms
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.target import Target

# Tests that are not about timing show that it is done: candidates are timed briefly.
BRIEFLY = TimingPlan(sample_s=2e-4, samples=1, visits=2, apart_s=0.0)
# Nor are they about what is found: few candidates are looked at before one is measured.
_FEW = EvolutionConfig(population=48, generations=2, structures=StructureConfig(structures=2, bred=1))
# And of what is known of other sizes, the nearest is carried over.
_NEIGHBOURS, _STRUCTURES = 2, 1


@contextmanager
def brief_searches() -> Iterator[pytest.MonkeyPatch]:
    """Have searches and guesses look at few candidates, with what else is patched meanwhile."""
    begin = Evolution.__init__

    def briefly(self: Evolution, arms: Arms, model: Model, seed: int, _: object = None, phases: Any = None) -> None:
        begin(self, arms, model, seed, _FEW, phases)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evolution, "__init__", briefly)
        patch.setattr(transferred, "MOST_NEIGHBOURS", _NEIGHBOURS)
        patch.setattr(transferred, "MOST_STRUCTURES", _STRUCTURES)
        yield patch


class KeptRunner(LocalRunner):
    """One that whoever opened it by name leaves for those who do so next."""

    def close(self) -> None:
        pass

    def end(self) -> None:
        super().close()


@contextmanager
def kept_workers() -> Iterator[LocalRunner]:
    """Have the executor `local` give the same runner to all who ask for it by name."""
    kept = KeptRunner(RunnerSettings(threads=Target.detect().threads, plan=BRIEFLY))

    def opened(settings: RunnerSettings) -> LocalRunner:
        assert settings.threads <= Target.detect().threads
        return kept

    try:
        with brief_searches() as patch:
            patch.setattr("metasched.measure.executors.local.LocalRunner", opened)
            yield kept
    finally:
        kept.end()
