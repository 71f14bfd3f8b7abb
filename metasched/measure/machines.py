"""On which machines a runner measures: on how many at once, and for which targets."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from metasched.measure.runner import Runner
from metasched.target import Target


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


@runtime_checkable
class OneMachine(Protocol):
    """What a runner has, besides what `Runner` asks for, that knows beforehand which targets it can measure for."""

    def require_able(self, target: Target) -> None:
        """Raises TargetError where the machine lacks what code for the target may use."""
        ...


def require_able(runner: Runner, target: Target) -> None:
    """Raises TargetError where a runner knows that it cannot measure for a target."""
    if isinstance(runner, OneMachine):
        runner.require_able(target)
