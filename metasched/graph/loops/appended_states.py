"""Loops whose steps put rows behind a state, and do nothing else with it: such a list is what steps give out.

`res = torch.cat([res, rows])` in a loop makes a state that is of another shape after each step. A step gives its rows
out instead, and all of them go behind what the list began with once the loop has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from metasched.support.data_classes import dataclass

# What gives a state on as it is: a cast to the type that it has already, as exporters write it.
_COPY_OPERATORS = ("Identity", "Cast")


@dataclass(frozen=True)
class AppendedState:
    """A state that rows are put behind.

    Attributes:
        number: its place among the states.
        rows: the name of what each step puts behind it.
        nodes: the nodes of the body that do that, by their places.

    """

    number: int
    rows: str
    nodes: frozenset[int]


def appended_states(graph: Any, states: Sequence[str], made: Sequence[str]) -> tuple[AppendedState, ...]:
    """The states of a loop's body that steps only put rows behind, along their first dimension.

    `states` and `made` are the names that they have before and after a step. A cast of such a state has to be to the
    type that it has.
    """
    found = (_find_appended(graph, number, *names) for number, names in enumerate(zip(states, made, strict=True)))
    return tuple(one for one in found if one is not None)


def drop_appended_states(graph: Any, states: Sequence[str], made: Sequence[str], found: Sequence[AppendedState]) -> Any:
    """A body without such states, which gives their rows out behind all else, in their order."""
    gone = frozenset[int]().union(*(one.nodes for one in found))
    inputs, outputs = {states[one.number] for one in found}, {made[one.number] for one in found}
    own = type(graph)()
    own.CopyFrom(graph)
    _replace_values(own.node, (node for place, node in enumerate(graph.node) if place not in gone))
    _replace_values(own.input, (value for value in graph.input if value.name not in inputs))
    _replace_values(own.output, (value for value in graph.output if value.name not in outputs))
    for one in found:
        own.output.add().name = one.rows
    return own


def _find_appended(graph: Any, number: int, state: str, made: str) -> AppendedState | None:
    name, nodes = state, set[int]()
    while True:
        readers = [place for place, node in enumerate(graph.node) if name in _read_names(node)]
        if len(readers) != 1 or any(value.name == name for value in graph.output):
            return None
        node = graph.node[readers[0]]
        nodes.update(readers)
        if node.op_type == "Concat" and not node.domain:
            is_list = len(node.input) == 2 and node.input[0] == name != node.input[1] and _axis(node) == 0
            is_last = node.output[0] == made and [value.name for value in graph.output].count(made) == 1
            if not is_list or not is_last or any(made in _read_names(other) for other in graph.node):
                return None
            return AppendedState(number, node.input[1], frozenset(nodes))
        if node.op_type not in _COPY_OPERATORS or node.domain:
            return None
        name = node.output[0]


def _axis(node: Any) -> int | None:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), None)


def _read_names(node: Any) -> Iterator[str]:
    """The names that a node reads, and those that graphs in it may read."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from _read_names(inner)


def _replace_values(field: Any, values: Iterable[Any]) -> None:
    kept = list(values)
    del field[:]
    field.extend(kept)
