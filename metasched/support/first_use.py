"""Numba, imported when something is first compiled: importing it takes as long as importing the rest of metasched.

A signal handler that compiles while the code it interrupts imports Numba waits for it: another thread does that.
"""

from __future__ import annotations

from metasched.support.imports import imports
from metasched.support.single_flight import SingleFlight

# Numba is imported by the first, and told of our types by the second.
_MODULES = ("metasched.compiler.cpu.codegen", "metasched.runtime.numba_typing")


class FirstUse:
    """Imports modules, once."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._modules = modules
        self._done = False
        self._once: SingleFlight[None] = SingleFlight()

    def __call__(self) -> None:
        if not self._done:
            self._once.run("import", self._import)

    def _import(self) -> None:
        for module in self._modules:
            imports.module(module)
        self._done = True


import_numba = FirstUse(_MODULES)
