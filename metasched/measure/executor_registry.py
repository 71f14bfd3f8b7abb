"""Executors by name or URL: ours, a file each in `executors/`, and those of other packages (`metasched.executors`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from metasched.errors import MetaschedError
from metasched.measure.runner import Runner
from metasched.support.calls import lacking_methods
from metasched.support.data_classes import dataclass
from metasched.support.registry import Registry, checked_function

GROUP = "metasched.executors"
DEFAULT_EXECUTOR = "local"
_SEPARATOR = "://"
# What a search calls of a runner.
_METHODS = ("lower", "submit", "prepare", "close")


@dataclass(frozen=True)
class ExecutorInputs:
    """What a runner is opened for.

    Attributes:
        address: the part of a URL after its scheme, as in `dask://host:8786`; empty for a name alone.
        threads: the most that a target may ask for.
    """

    address: str
    threads: int


MakeRunner = Callable[[ExecutorInputs], Runner]


@runtime_checkable
class ChecksInputs(Protocol):
    """An executor that can tell whether it could open a runner, before there is anything to measure."""

    def check(self, wanted: ExecutorInputs) -> None:
        """Raises MetaschedError for an address that it does not take; nothing is opened."""


def _require_maker(value: object) -> MakeRunner:
    return checked_function(value, "what is wanted", "what is wanted")


EXECUTORS = Registry(GROUP, "executor", _require_maker, MetaschedError, "metasched.measure.executors", "executor")


class OpenedOnce:
    """A runner that is opened when it is first wanted, or one that is open and is left so.

    Args:
        runner: the name of an executor, such as "local", a URL, such as "dask://host:8786", or a runner.
        threads: the most that a target may ask for.

    Raises MetaschedError for an unknown executor, an address that it does not take where it can tell, and for what is
    no runner; nothing is started yet.
    """

    def __init__(self, runner: str | Runner, threads: int) -> None:
        self._given = None if isinstance(runner, str) else runner
        self._own: Runner | None = None
        if isinstance(runner, str):
            self._name, _, address = runner.partition(_SEPARATOR)
            self._make = EXECUTORS.get(self._name)
            self._wanted = ExecutorInputs(address, threads)
            executor: object = self._make
            if isinstance(executor, ChecksInputs):
                executor.check(self._wanted)
        elif lacking := lacking_methods(runner, *_METHODS):
            raise MetaschedError(
                f"`runner` is {runner!r}, and no runner: it has no `{lacking[0]}`",
                hint=f'give the name or URL of an executor, such as "{DEFAULT_EXECUTOR}", or a runner',
            )

    @property
    def is_open(self) -> bool:
        return self._own is not None

    @property
    def at_hand(self) -> Runner | None:
        """The runner that was given, or was opened here; None before."""
        return self._own if self._given is None else self._given

    def open_runner(self) -> Runner:
        """The runner, opened now if it is not. Raises ResourceError when the machine denies what it needs, and
        MetaschedError where the executor makes none.
        """
        if self._given is not None:
            return self._given
        if self._own is None:
            made = self._make(self._wanted)
            if lacking := lacking_methods(made, *_METHODS):
                package = EXECUTORS.package_of(self._name)
                raise MetaschedError(
                    f"the executor `{self._name}` of {package} made {made!r}, which is no runner: it has no "
                    f"`{lacking[0]}`"
                )
            self._own = made
        return self._own

    def close(self) -> None:
        """Close the runner that was opened here."""
        if self._own is not None:
            self._own.close()
            self._own = None
