"""Constants of a graph that was compiled: kernels have copies, so the arrays are made again where somebody asks.

Constants of the model itself stay, as pages of its file where they are large. Those that passes computed go, and the
passes run again for whoever looks at one.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, ValuesView
from dataclasses import replace

from metasched.graph.ir import Array, Graph
from metasched.graph.loops.bodies import replace_bodies
from metasched.graph.reading.mapped_files import LEAST_BYTES, let_pages_go, pages_of


class RecomputedConstants(Mapping[str, Array]):
    """Constants by name, of which large ones that are not `kept` are taken from the graph that `again` makes."""

    def __init__(self, constants: Mapping[str, Array], kept: Collection[Array], again: Callable[[], Graph]) -> None:
        self._names = tuple(constants)
        own = {id(array) for array in kept}
        self._held = {
            name: array
            for name, array in constants.items()
            if id(array) in own or array.nbytes < LEAST_BYTES or pages_of(array) is not None
        }
        self._again = again

    def __getitem__(self, name: str) -> Array:
        if name in self._held:
            return self._held[name]
        if name not in self._names:
            raise KeyError(name)
        return self._again().constants[name]

    def values(self) -> ValuesView[Array]:
        return self._all_arrays().values()

    def items(self) -> ItemsView[str, Array]:
        return self._all_arrays().items()

    def _all_arrays(self) -> dict[str, Array]:
        """All of them; the passes run once."""
        missing = [name for name in self._names if name not in self._held]
        graph = self._again() if missing else None
        return {n: self._held[n] if graph is None or n in self._held else graph.constants[n] for n in self._names}

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def let_constants_go(graph: Graph, model: Graph, again: Callable[[], Graph]) -> Graph:
    """The graph without the memory of its constants. `model` is what it was made from, by `again`."""
    kept = _all_constants(model)
    let_pages_go((*_all_constants(graph), *kept))
    return _release_constants(graph, kept, again)


def _all_constants(graph: Graph) -> list[Array]:
    """The constants of a graph, and of the bodies of its loops."""
    bodies = (array for loop in graph.loops for array in _all_constants(loop.body))
    return [*graph.constants.values(), *bodies]


def _release_constants(graph: Graph, kept: Collection[Array], again: Callable[[], Graph]) -> Graph:
    """A graph and the bodies of its loops without the memory of their constants."""

    def body(number: int) -> Callable[[], Graph]:
        return lambda: list(again().loops)[number].body

    numbers = {id(loop): number for number, loop in enumerate(graph.loops)}
    made = replace_bodies(graph, lambda loop: _release_constants(loop.body, kept, body(numbers[id(loop)])))
    return replace(made, constants=RecomputedConstants(graph.constants, kept, again))


def return_free_memory() -> None:
    """Have the C library give pages that it keeps for later back to the system, where it can."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
