"""Modules that are imported at their first use, once. Importing Numba takes as long as importing the rest of metasched.

A signal handler that compiles while the code it interrupts imports Numba waits for it: another thread does that.
"""

from __future__ import annotations

from metasched.support.imports import imports
from metasched.support.single_flight import SingleFlight


class FirstUse:
    """Imports a module at the first call, after what `after` imports. Calls wait for the import that is under way."""

    def __init__(self, module: str, after: FirstUse | None = None) -> None:
        self._module = module
        self._after = after
        self._done = False
        self._once: SingleFlight[None] = SingleFlight()

    def __call__(self) -> None:
        if not self._done:
            if self._after is not None:
                self._after()
            self._once.run("import", self._import)

    def _import(self) -> None:
        imports.module(self._module)
        self._done = True


# By the one file that uses its private parts: no thread is left to import these unseen, beside a fork.
import_numba = FirstUse("metasched.support.numba_internals")
