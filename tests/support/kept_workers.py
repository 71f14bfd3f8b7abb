"""One set of worker processes for the searches of a file: starting them takes longer than a search of few trials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan
from metasched.target import Target

# Tests that are not about timing show that it is done: candidates are timed briefly.
BRIEFLY = TimingPlan(sample_s=2e-4, samples=1, visits=2, apart_s=0.0)


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
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("metasched.measure.executors.local.LocalRunner", opened)
            yield kept
    finally:
        kept.end()
