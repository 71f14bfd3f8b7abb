"""What kernels hand to one another as dequantised bytes is handed over as the bytes.

Elementwise nodes are joined with what computes their inputs, and so a value may be quantised, made a float again, and
written. Here the bytes are written, a quarter of that, and what reads them makes floats of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import map_reads, reads, substitute_names
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Compute, Graph, Node
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.precision.products import new_name
from metasched.graph.precision.quantised import BYTES, Dequantised, dequantised_form
from metasched.graph.value_type import ValueType
from metasched.ir.source import Axis, Name, Read, Reduce, SourceExpr, Stage
from metasched.support.data_classes import dataclass


@graph_pass(after=("fusion",))
def bytes_between(graph: Graph, _: PassContext) -> Graph:
    """Dequantised bytes that one kernel hands to another are handed over as the bytes."""
    return remove_dead_code(_Handing(graph).graph())


@dataclass(frozen=True)
class _Handed:
    """A value as the bytes that it is made of.

    Attributes:
        value: the bytes.
        axes: the index variables of `floats`.
        floats: what makes the value of the byte `""` at these indices.
        given: values of the graph that it reads, by the names that they have there.

    """

    value: str
    axes: tuple[str, ...]
    floats: SourceExpr
    given: Mapping[str, str]


class _Handing:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types = dict(graph.types)
        self._forms = {id(node): stages for node in graph.computes if (stages := stages_of(node.program)) is not None}
        self._fixed = {name for _, name in graph.outputs}
        for node in graph.nodes:
            if id(node) not in self._forms:
                self._fixed.update((*node.inputs, *node.outputs))
        self._handed: dict[str, _Handed] = {}

    def graph(self) -> Graph:
        nodes = tuple(self._rewrite_node(node) for node in self._graph.nodes)
        return replace(self._graph, nodes=nodes, types=self._types)

    def _rewrite_node(self, node: Node) -> Node:
        stages = self._forms.get(id(node))
        if not isinstance(node, Compute) or stages is None:
            return node
        node, stages = self._read_bytes(node, stages)
        return self._write_bytes(node, stages)

    # --- what writes

    def _write_bytes(self, node: Compute, stages: Stages) -> Compute:
        """A node that writes bytes instead of the floats that it makes of them."""
        if len(stages.outputs) != 1 or node.outputs[0] in self._fixed:
            return node
        stage = stages.stages[-1]
        found = dequantised_form(stage.value) if stage.buffer == stages.outputs[0] else None
        if found is None or found.scale is None or not self._may_write_bytes(stages, found):
            return node
        given = node.input_values(stages.inputs)
        needed = {read.buffer: given[read.buffer] for part in found.parts for read in reads(part)}
        axes = tuple(axis.name for axis in stage.axes)
        inner = found.byte
        if isinstance(inner, Read):
            if stages.types[inner.buffer].dtype not in BYTES or inner.buffer not in given:
                return node
            if inner.indices != tuple(map(Name, axes)):
                return node
            self._handed[node.outputs[0]] = _Handed(given[inner.buffer], axes, found.replace_byte(_BYTE), needed)
            return node  # Nothing reads it any more.
        dtype = DType(inner.func)
        value = self._add_value(node.outputs[0], dtype)
        self._handed[node.outputs[0]] = _Handed(value, axes, found.replace_byte(_BYTE), needed)
        types = {**stages.types, stage.buffer: replace(stages.types[stage.buffer], dtype=dtype)}
        made = (*stages.stages[:-1], replace(stage, value=inner))
        return self._replace_program(node, replace(stages, types=types, stages=made), given, (value,))

    def _may_write_bytes(self, stages: Stages, found: Dequantised) -> bool:
        """Whether scales and zero points are weights, or are given, and the output is read by no other stage."""
        named = {read.buffer for part in found.parts for read in reads(part)}
        inside = {read.buffer for stage in stages.stages for read in reads(stage.value)}
        return named <= stages.consts and not inside.intersection(stages.outputs)

    def _add_value(self, like: str, dtype: DType) -> str:
        name, number = f"{like}.{dtype}", 1
        while name in self._types:
            name, number = f"{like}.{dtype}.{number}", number + 1
        self._types[name] = ValueType(dtype, self._types[like].shape)
        return name

    # --- what reads

    def _read_bytes(self, node: Compute, stages: Stages) -> tuple[Compute, Stages]:
        """A node that makes floats of the bytes that it is handed."""
        given = node.input_values(stages.inputs)
        changed = {name: self._handed[value] for name, value in given.items() if value in self._handed}
        if not changed:
            return node, stages
        for name, handed in changed.items():
            stages = _dequantise_input(self._types, stages, given, name, handed)
        needed = {read.buffer for stage in stages.stages for read in reads(stage.value)}
        stages = replace(stages, inputs=tuple(name for name in stages.inputs if name in needed))
        return self._replace_program(node, stages, given, node.outputs), stages

    def _replace_program(
        self, node: Compute, stages: Stages, given: Mapping[str, str], outputs: tuple[str, ...]
    ) -> Compute:
        needed = {read.buffer for stage in stages.stages for read in reads(stage.value)}
        stages = replace(stages, inputs=tuple(name for name in stages.inputs if name in needed))
        inputs = tuple(given[name] for name in stages.inputs)
        return replace(node, program=program_of(stages, node.program.name), inputs=inputs, outputs=outputs)


# What stands for the byte in `_Handed.floats`.
_BYTE = Read("", ())


def _dequantise_input(
    types: Mapping[str, ValueType], stages: Stages, given: dict[str, str], name: str, handed: _Handed
) -> Stages:
    """Stages that read bytes instead of an input, whose floats a reduction reads from a buffer of their own."""
    own: dict[str, str] = {}
    for like, value in {"": handed.value, **handed.given}.items():
        known = next((n for n, v in given.items() if v == value), None)
        own[like] = known or new_name(stages, f"{name}q")
        if known is None:
            given[own[like]] = value
            consts = stages.consts | ({own[like]} if like else frozenset())
            inputs = (*stages.inputs, own[like])
            stages = replace(stages, types={**stages.types, own[like]: types[value]}, inputs=inputs, consts=consts)

    def floats(indices: tuple[SourceExpr, ...]) -> SourceExpr:
        places = dict(zip(handed.axes, indices, strict=True))

        def change(read: Read) -> SourceExpr:
            return Read(own[""], indices) if read.buffer == "" else replace(read, buffer=own[read.buffer])

        return map_reads(substitute_names(handed.floats, places), change)

    apart = any(isinstance(s.value, Reduce) and any(r.buffer == name for r in reads(s.value)) for s in stages.stages)
    if apart:
        axes = tuple(Axis(f"i{n}") for n in range(types[handed.value].rank))
        whole = Stage(None, f"{name}f", axes, floats(tuple(Name(axis.name) for axis in axes)))
        buffer = new_name(stages, whole.buffer)
        stages = replace(
            stages,
            types={**stages.types, buffer: replace(types[handed.value], dtype=DType.F32)},
            stages=(replace(whole, buffer=buffer), *stages.stages),
        )
        return _change_reads(stages, name, lambda read: replace(read, buffer=buffer))
    return _change_reads(stages, name, lambda read: floats(read.indices))


def _change_reads(stages: Stages, name: str, change: Callable[[Read], SourceExpr]) -> Stages:
    """Stages with reads of a buffer changed."""

    def change_read(read: Read) -> SourceExpr:
        return change(read) if read.buffer == name else read

    return replace(stages, stages=tuple(replace(s, value=map_reads(s.value, change_read)) for s in stages.stages))
