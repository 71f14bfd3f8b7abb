"""Imports at first use. A process that is forked meanwhile would get modules half made, and locked by a thread that is
not there: so a fork waits for them.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from metasched.support.forks import guards

_LOOK_S = 0.001
# An import that takes longer waits for something else, such as the thread that forks.
_LONGEST_S = 10.0


class Imports:
    """Imports that are under way.

    They wait neither for one another nor for a fork, to avoid deadlocks: the import of one module may need another that
    a second thread is importing.
    """

    def __init__(self, load: Callable[[str], ModuleType] = importlib.import_module) -> None:
        self._load = load
        self._threads: list[int] = []

    def module(self, name: str) -> ModuleType:
        """A module by its name, imported unless it is there."""
        with self.under_way():
            return self._load(name)

    def of_package(self, package: str) -> Iterator[tuple[str, ModuleType]]:
        """Every module of a package with its name there, in the order of names, imported unless it is there."""
        for info in pkgutil.iter_modules(self.module(package).__path__):
            yield info.name, self.module(f"{package}.{info.name}")

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """While its body runs, this thread imports."""
        own = threading.get_ident()
        self._threads.append(own)
        try:
            yield
        finally:
            self._threads.remove(own)

    def wait(self) -> None:
        """Wait until no other thread imports."""
        own, until = threading.get_ident(), time.monotonic() + _LONGEST_S
        while any(thread != own for thread in tuple(self._threads)) and time.monotonic() < until:
            time.sleep(_LOOK_S)


imports = Imports()
guards.add(imports.wait)
