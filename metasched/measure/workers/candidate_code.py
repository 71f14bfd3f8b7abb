"""The machine code of a candidate in memory, called on a bench's data as a whole or in its two parts."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from metasched.measure.checking.check import Bench, Guarded
from metasched.measure.records import Artefact, ArtefactPrologue
from metasched.measure.workers.load import BoundKernel, LoadedKernel

# The parts of all candidates of a batch: each is visited several times, and loading takes longer than a few calls.
_MOST_LOADED = 128


class CallableCode(Protocol):
    """Code that is checked and timed.

    `scratch` is the memory that it takes besides arguments and results. `prologue_seconds` is how long what it computes
    of constant arguments took when it was last bound, None where that is nothing.
    """

    scratch: tuple[Guarded, ...]
    prologue_seconds: float | None

    def bind(self, bench: Bench) -> BoundKernel:
        """The code on the data that is in place; its prologue runs now."""

    def constant_arguments(self, bench: Bench) -> dict[int, Guarded]:
        """The arguments that do not change between calls, by their positions among those of what `bind` gives:
        constants as they are, and what was computed of them ahead.
        """


class WholeCode:
    """A candidate that is called as a whole."""

    def __init__(self, artefact: Artefact, data: bytes) -> None:
        self._kernel = _loaded_kernel(artefact, data)
        self._workspace = Guarded(artefact.workspace_bytes, offset=0)
        self.scratch: tuple[Guarded, ...] = (self._workspace,)
        self.prologue_seconds: float | None = None

    def bind(self, bench: Bench) -> BoundKernel:
        return self._kernel.bind(bench.addresses, self._workspace.address)

    def constant_arguments(self, bench: Bench) -> dict[int, Guarded]:
        return {n: bench.inputs[n] for n in bench.cases.constants}


class DividedCode:
    """A candidate in two parts: the prologue runs once for the data in place, and the main part is what is called."""

    def __init__(self, artefact: Artefact, ahead: ArtefactPrologue, data: bytes) -> None:
        before, main = artefact.split(data)
        self._ahead = ahead
        self._prologue = _loaded_kernel(ahead.code, before)
        self._main = _loaded_kernel(artefact, main)
        self._results = tuple(Guarded(size, offset=0) for size in ahead.result_bytes)
        self._workspaces = tuple(Guarded(part.workspace_bytes, offset=0) for part in (ahead.code, artefact))
        self.scratch: tuple[Guarded, ...] = (*self._results, *self._workspaces)
        self.prologue_seconds: float | None = None

    def bind(self, bench: Bench) -> BoundKernel:
        results = [guarded.address for guarded in self._results]
        inputs = [guarded.address for guarded in bench.inputs]
        outputs = bench.addresses[len(inputs) :]
        ahead, during = self._workspaces
        prologue = self._prologue.bind([*(inputs[n] for n in self._ahead.given), *results], ahead.address)
        self.prologue_seconds = prologue.run(1)
        main = self._main.bind([*(inputs[n] for n in self._ahead.taken), *results, *outputs], during.address)
        main.status = prologue.status
        return main

    def constant_arguments(self, bench: Bench) -> dict[int, Guarded]:
        taken = self._ahead.taken
        constants = {slot: bench.inputs[n] for slot, n in enumerate(taken) if n in bench.cases.constants}
        return constants | dict(enumerate(self._results, start=len(taken)))


def load_code(artefact: Artefact, data: bytes) -> CallableCode:
    """A candidate's code in memory, in two parts where it has a prologue."""
    if artefact.ahead is None:
        return WholeCode(artefact, data)
    return DividedCode(artefact, artefact.ahead, data)


@lru_cache(maxsize=_MOST_LOADED)
def _loaded_kernel(artefact: Artefact, data: bytes) -> LoadedKernel:
    return LoadedKernel(artefact, data)
