"""A quantised network without rounding: what it would compute in f32.

What is rounded to bytes and made a float again, by the same scale and zero point, is only kept in the range of the
bytes: quantisers leave a ReLU to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Array, Compute, Graph, Node
from metasched.graph.loops.bodies import change_all_graphs
from metasched.graph.precision.products import cast, literal
from metasched.graph.precision.quantised import BYTES, quantised_form
from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, Operation, Read, SourceExpr
from metasched.support.data_classes import dataclass

_WIDE_TYPE = DType.F32


@dataclass(frozen=True)
class _Rounded:
    """A program that rounds floats to bytes.

    Attributes:
        node: what runs it.
        stages: its stages.
        given: the values of the graph that its inputs are.
        number: the float that is rounded.
        scale: what it is divided by.
        zero: its zero point, as a float; None where it is zero.
        low: the least byte.
        high: the largest byte.

    """

    node: Compute
    stages: Stages
    given: Mapping[str, str]
    number: SourceExpr
    scale: SourceExpr
    zero: SourceExpr | None
    low: SourceExpr
    high: SourceExpr

    def clamp_to_range(self) -> Compute:
        """The node with the float itself, in the range that bytes have."""

        def limit(byte: SourceExpr) -> SourceExpr:
            steps = byte if self.zero is None else Operation(BinOp.SUB, byte, self.zero)
            return Operation(BinOp.MUL, steps, cast(self.scale, _WIDE_TYPE))

        value = Apply("min", (Apply("max", (self.number, limit(self.low))), limit(self.high)))
        (stage,) = self.stages.stages
        types = {**self.stages.types, stage.buffer: replace(self.stages.types[stage.buffer], dtype=_WIDE_TYPE)}
        stages = replace(self.stages, types=types, stages=(replace(stage, value=value),))
        return replace(self.node, program=program_of(stages, self.node.program.name))


def without_rounding(graph: Graph) -> Graph:
    """The graph in which what is rounded to bytes to be made a float again stays a float.

    Bytes that are read otherwise, such as those of `QLinearConv`, stay.
    """
    return change_all_graphs(graph, _drop_rounding)


def _drop_rounding(graph: Graph) -> Graph:
    rounded: dict[str, _Rounded] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        stages = stages_of(node.program) if isinstance(node, Compute) else None
        if isinstance(node, Compute) and stages is not None:
            given = node.input_values(stages.inputs)
            found = _match_rounding(node, stages, given)
            if found is not None:
                rounded[node.outputs[0]] = found
            source = _source(graph, stages, given, rounded)
            if source is not None:
                nodes.append(replace(source.clamp_to_range(), outputs=node.outputs))
                continue
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _match_rounding(node: Compute, stages: Stages, given: Mapping[str, str]) -> _Rounded | None:
    """A node as one that rounds to bytes; None where it does something else."""
    if len(stages.stages) != 1 or stages.types[stages.outputs[0]].dtype not in BYTES:
        return None
    match stages.stages[0].value:
        case Apply(_, (Apply("min", (Apply("max", (whole, low)), high)),)):
            pass
        case _:
            return None
    match whole:
        case Apply("rint", (Operation(BinOp.DIV, number, scale),)):
            return _Rounded(node, stages, given, number, scale, None, low, high)
        case Operation(BinOp.ADD, Apply("rint", (Operation(BinOp.DIV, number, scale),)), zero):
            return _Rounded(node, stages, given, number, scale, zero, low, high)
    return None


def _source(graph: Graph, stages: Stages, given: Mapping[str, str], rounded: Mapping[str, _Rounded]) -> _Rounded | None:
    """What was rounded to the bytes that a program makes floats of, by the same scale and zero point."""
    form = quantised_form(stages, given)
    if form is None or form.scale is None or stages.types[stages.outputs[0]].dtype is not _WIDE_TYPE:
        return None
    found = rounded.get(form.value)
    if found is None:
        return None
    for own, other in ((form.scale, found.scale), (form.zero, found.zero)):
        first, second = _known_numbers(graph, own, form.given), _known_numbers(graph, other, found.given)
        if first is None or second is None or not np.array_equal(first, second):
            return None
    return found


def _known_numbers(graph: Graph, part: SourceExpr | None, given: Mapping[str, str]) -> Array | None:
    """The numbers of a scale or zero point that is known at load."""
    if part is None:
        return np.zeros(1)
    number = literal(part)
    if number is not None:
        return np.array([number], np.float64)
    names = [given[read.buffer] for read in reads(part)]
    if len(names) != 1 or names[0] not in graph.constants or not isinstance(_strip_casts(part), Read):
        return None
    return graph.constants[names[0]].astype(np.float64).reshape(-1)


def _strip_casts(part: SourceExpr) -> SourceExpr:
    """The expression without the casts around it."""
    while isinstance(part, Apply) and len(part.args) == 1:
        part = part.args[0]
    return part
