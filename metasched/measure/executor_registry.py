"""Executors by name or URL: ours, a file each in `executors/`, and those of other packages (`metasched.executors`)."""

from __future__ import annotations

from collections.abc import Callable

from metasched.errors import MetaschedError
from metasched.measure.runner import Runner
from metasched.support.data_classes import dataclass
from metasched.support.registry import Registry, UnfitError

GROUP = "metasched.executors"
DEFAULT_EXECUTOR = "local"
_SEPARATOR = "://"


@dataclass(frozen=True)
class Wanted:
    """What a runner is opened for.

    Attributes:
        address: the part of a URL after its scheme, as in `dask://host:8786`; empty for a name alone.
        threads: the most that a target may ask for.
    """

    address: str
    threads: int


MakeRunner = Callable[[Wanted], Runner]


def _checked(value: object) -> MakeRunner:
    if not callable(value):
        raise UnfitError(f"it is {value!r}, and not a function of what is wanted")
    make: MakeRunner = value
    return make


EXECUTORS = Registry(GROUP, "executor", _checked, MetaschedError, "metasched.measure.executors", "executor")


class OpenedOnce:
    """A runner that is opened when it is first wanted, or one that is open and is left so.

    Args:
        runner: the name of an executor, such as "local", a URL, such as "dask://host:8786", or a runner.
        threads: the most that a target may ask for.

    Raises MetaschedError for an unknown executor; nothing is started yet.
    """

    def __init__(self, runner: str | Runner, threads: int) -> None:
        self._given = None if isinstance(runner, str) else runner
        self._own: Runner | None = None
        if isinstance(runner, str):
            name, _, address = runner.partition(_SEPARATOR)
            self._make = EXECUTORS.get(name)
            self._wanted = Wanted(address, threads)

    @property
    def is_open(self) -> bool:
        return self._own is not None

    @property
    def at_hand(self) -> Runner | None:
        """The runner that was given, or was opened here; None before."""
        return self._own if self._given is None else self._given

    def opened(self) -> Runner:
        """The runner, opened now if it is not. Raises ResourceError when the machine denies what it needs."""
        if self._given is not None:
            return self._given
        if self._own is None:
            self._own = self._make(self._wanted)
        return self._own

    def close(self) -> None:
        """Close the runner that was opened here."""
        if self._own is not None:
            self._own.close()
            self._own = None
