"""What a network holds between calls: states, such as a decoder's cache of keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from metasched.graph.errors import NetworkError
from metasched.graph.ir import Array, Graph
from metasched.graph.running.memory import MappedMemory
from metasched.graph.running.plan import align_bytes
from metasched.graph.value_type import ValueType
from metasched.runtime.child_locks import lock_of_calls


class NetworkState(Mapping[str, Array]):
    """Arrays by the names of the inputs that they are; zeros at first. They may be read and written between calls.

    One call at a time changes them.
    """

    def __init__(self, types: Mapping[str, ValueType]) -> None:
        self._types = dict(types)
        self._memory = MappedMemory(sum(align_bytes(type_.nbytes) for type_ in types.values()), "states")
        self._arrays: dict[str, Array] = {}
        offset = 0
        for name, type_ in types.items():
            self._arrays[name] = self._memory.array(offset, type_)
            offset += align_bytes(type_.nbytes)
        self.lock = lock_of_calls()

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        return sum(array.nbytes for array in self._arrays.values())

    def reset(self) -> None:
        """Zeros everywhere, as before the first call."""
        with self.lock:
            for array in self._arrays.values():
                array[...] = 0

    def copy(self) -> NetworkState:
        """Another state of the same contents."""
        made = NetworkState(self._types)
        with self.lock:
            for name, array in self._arrays.items():
                made[name][...] = array
        return made

    def __repr__(self) -> str:
        return f"<state of {', '.join(f'{name}: {type_}' for name, type_ in self._types.items()) or 'nothing'}>"


def with_states(graph: Graph, states: Mapping[str, str]) -> Graph:
    """A graph that holds inputs between calls; `states` are the outputs that they are next.

    Raises NetworkError for names that there are not, and for an output of another type than its input's.
    """
    made = dict(graph.outputs)
    for name, label in states.items():
        if name not in graph.inputs:
            raise NetworkError(f"the state `{name}` is no input; the inputs are {', '.join(graph.inputs)}")
        if label not in made:
            raise NetworkError(f"the state `{name}` is to be next `{label}`; the outputs are {', '.join(made)}")
        if graph.types[name] != graph.types[made[label]]:
            raise NetworkError(
                f"the state `{name}` is {graph.types[name]}, and `{label}`, which it is to be next, "
                f"{graph.types[made[label]]}",
                hint="a state keeps its type: a cache has room for all positions, and is updated at one",
            )
    if len(set(states.values())) != len(states):
        raise NetworkError("two states are to be next the same output")
    return replace(graph, states=dict(states))
