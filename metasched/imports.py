"""Imports at first use. A process that is forked meanwhile would get modules half made, and locked by a thread that is
not there: so a fork waits for them.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from types import ModuleType

from metasched.forks import guards

_LOOK_S = 0.001
# An import that takes longer waits for something else, such as the thread that forks.
_LONGEST_S = 10.0


class Imports:
    """Imports that are under way.

    They do not wait for one another, nor for a fork: a thread that imports one module may need another that is being
    imported by the thread it would keep waiting.
    """

    def __init__(self, load: Callable[[str], ModuleType] = importlib.import_module) -> None:
        self._load = load
        self._threads: list[int] = []

    def module(self, name: str) -> ModuleType:
        """A module by its name, imported unless it is there."""
        own = threading.get_ident()
        self._threads.append(own)
        try:
            return self._load(name)
        finally:
            self._threads.remove(own)

    def wait(self) -> None:
        """Wait until no other thread imports."""
        own, until = threading.get_ident(), time.monotonic() + _LONGEST_S
        while any(thread != own for thread in tuple(self._threads)) and time.monotonic() < until:
            time.sleep(_LOOK_S)


imports = Imports()
guards.add(imports.wait)
