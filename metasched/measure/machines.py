"""Runners that measure on several machines at once."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from metasched.measure.runner import Runner


@runtime_checkable
class SeveralMachines(Protocol):
    """What a runner has, besides what `Runner` asks for, that measures on several machines."""

    @property
    def batches_at_once(self) -> int:
        """How many batches of candidates it can measure at once now, one at least."""
        ...


def batches_at_once(runner: Runner) -> int:
    """How many batches of candidates a runner can measure at once now."""
    return runner.batches_at_once if isinstance(runner, SeveralMachines) else 1
