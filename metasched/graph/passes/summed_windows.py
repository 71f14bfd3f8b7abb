"""Sums of convolutions of one value, of scales of it, and of itself are one convolution, whose weights are added up.

Networks that are trained with several branches, and used with one (Ding et al. 2021, arXiv 2101.03697), are often
exported as they were trained. One branch has to have all places that the others have, as 3 x 3 has that of 1 x 1: its
program stays as it is, with other weights. What the branches add is added to the result.

Where products are of bf16, only products go into them: a value that is added as it is, or scaled, is not rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.canonical import canonical
from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.merge import canonical_compute
from metasched.graph.fusion.stages import Stages, parse_once, program_of, stages_of
from metasched.graph.fusion.windows import Window, whole_value, window_of
from metasched.graph.ir import Array, Compute, Graph, Node
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.constant_folding import compute_outputs
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.text import at, indices
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp
from metasched.ir.source import Axis, IntLit, Name, Operation, Read, SourceExpr, Stage
from metasched.support.data_classes import dataclass
from metasched.target import Target


@graph_pass(after=("common_subexpressions",))
def summed_windows(graph: Graph, context: PassContext) -> Graph:
    """Sums of convolutions and scales of one value are one convolution."""
    return _Sums(graph, context).run()


@dataclass(frozen=True)
class _Branch:
    """A value as a sum over a window of another.

    Attributes:
        window: that sum; of one with a filter, `offset` is what is added after its node.
        node: the convolution, in canonical form, where there is one whose weights may be others: those that the window
            has, if what it gives was multiplied.
        own_offset: what that node adds itself.

    """

    window: Window
    node: Compute | None = None
    own_offset: Array | float = 0.0

    @property
    def offset(self) -> Array:
        """All that is added."""
        return np.asarray(self.window.offset + self.own_offset, np.float32)


class _Sums:
    def __init__(self, graph: Graph, context: PassContext) -> None:
        self._graph = graph
        self._context = context
        self._target: Target = context.options.target
        self._types = dict(graph.types)
        self._constants = dict(graph.constants)
        self._producer = {name: node for node in graph.nodes if isinstance(node, Compute) for name in node.outputs}
        self._readers: dict[str, int] = {name: 1 for _, name in graph.outputs}
        for node in graph.nodes:
            for name in node.inputs:
                self._readers[name] = self._readers.get(name, 0) + 1

    def run(self) -> Graph:
        nodes: list[Node] = []
        for node in self._graph.nodes:
            made = self._join(node) if isinstance(node, Compute) else None
            for one in made or (node,):
                nodes.append(one)
                if isinstance(one, Compute):
                    self._producer |= dict.fromkeys(one.outputs, one)
        return remove_dead_code(replace(self._graph, nodes=tuple(nodes), constants=self._constants, types=self._types))

    def _join(self, node: Compute) -> tuple[Node, ...] | None:
        """What computes a sum of two branches instead; None where it is none, or they cannot be joined."""
        terms = _terms(node)
        if terms is None or terms[0] == terms[1]:
            return None
        found = [self._branch(name) for name in terms]
        for n, name in enumerate(terms):
            other = found[1 - n]
            if other is not None and other.window.data == name:
                found[n] = _Branch(whole_value(name, self._types[name]))
        first, second = found
        if first is None or second is None:
            return None
        for whole, part in ((first, second), (second, first)):
            if whole.node is None or not self._may_be_product(part.window):
                continue
            if _has_places_of(whole.window, part.window):
                self._context.remark(f"`{node.name}`: the weights of `{whole.node.name}` have its other term, too")
                return self._joined(node, whole, part)
        return None

    def _may_be_product(self, window: Window) -> bool:
        """Whether the terms of a sum may be those of a product, as far as rounding goes."""
        return window.filter is not None or self._context.options.precision is ProductPrecision.F32

    def _branch(self, name: str) -> _Branch | None:
        """A value as a sum over a window of another; None where it is none, or read elsewhere, too."""
        node = self._producer.get(name)
        if node is None or self._readers.get(name) != 1 or len(node.outputs) != 1:
            return None
        node = canonical_compute(self._graph_now(), node)
        stages = stages_of(node.program)
        if stages is None:
            return None
        given = node.input_values(stages.inputs)
        stages = replace(stages, consts=frozenset(n for n in stages.inputs if given[n] in self._constants))
        window = window_of(stages, lambda e, along: self._numbers(e, along, stages, given))
        if window is None:
            return None
        own = replace(window, data=given[window.data])
        if window.filter is not None:
            zero = np.zeros((), np.float32)
            return _Branch(replace(own, offset=zero), node, own.offset)
        inner = self._branch(own.data)
        return _Branch(own) if inner is None else (_shifted(inner, own) or _Branch(own))

    def _graph_now(self) -> Graph:
        return replace(self._graph, types=self._types, constants=self._constants)

    def _numbers(self, e: SourceExpr, along: Mapping[str, int], stages: Stages, given: dict[str, str]) -> Array:
        """The numbers of an expression over constants of a program."""
        if (
            isinstance(e, Read)
            and e.indices == tuple(map(Name, along))
            and stages.types[e.buffer].shape == tuple(along.values())
        ):
            return self._constants[given[e.buffer]]
        used = tuple(dict.fromkeys(read.buffer for read in reads(e)))
        types = {name: stages.types[name] for name in used} | {"=": ValueType(DType.F32, tuple(along.values()))}
        stage = Stage(None, "=", tuple(map(Axis, along)), e)
        made, inputs, _ = canonical(Stages(types, used, frozenset(used), ("=",), (stage,)))
        arrays = [self._constants[given[name]] for name in inputs]
        return compute_outputs(program_of(made, "constants"), arrays, self._target)[0]

    def _joined(self, node: Compute, whole: _Branch, part: _Branch) -> tuple[Node, ...]:
        """The convolution of one branch with the weights of both, and what adds what they add."""
        assert whole.node is not None
        (output,) = node.outputs
        name = self._add_weights(output, whole, part.window)
        replaced = whole.node.input_values()[_own_name(whole)]
        inputs = tuple(name if given == replaced else given for given in whole.node.inputs)
        offset = np.asarray(whole.window.offset + part.offset, np.float32)
        if not offset.any():
            return (replace(whole.node, inputs=inputs, outputs=(output,)),)
        between, shift = f"{output}.window", f"{output}.offset"
        type_ = self._types[output]
        self._types |= {between: type_, shift: ValueType(DType.F32, offset.shape)}
        self._constants[shift] = offset
        self._readers |= {between: 1, shift: 1}
        over = indices(type_.rank)
        channel = _channel_of(whole.window, part.window)
        along = [] if channel is None or not offset.ndim else [over[channel]]
        text = (
            f"program add(A: {type_}, const B: {self._types[shift]}) -> Y: {type_}:\n"
            f"    {at('Y', over)} = {at('A', over)} + {at('B', along)}\n"
        )
        made = replace(whole.node, inputs=inputs, outputs=(between,))
        return made, Compute(node.name, node.op, parse_once(text), (between, shift), (output,))

    def _add_weights(self, output: str, whole: _Branch, part: Window) -> str:
        """The weights of one branch with those of another added."""
        filter_ = whole.window.filter
        assert filter_ is not None
        assert whole.node is not None
        array = self._constants[whole.node.input_values()[_own_name(whole)]].copy()
        for place, subscripts in filter_.subscripts.items():
            numbers = whole.window.places[place]
            array[subscripts] = numbers if filter_.results_first else numbers.T
        for place, numbers in part.places.items():
            here = array[filter_.subscripts[place]]
            if here.ndim == 2 and numbers.ndim < 2:
                here[np.diag_indices(len(here))] += numbers
            else:
                here += numbers if filter_.results_first else numbers.T
        name = f"{output}.weights"
        self._constants[name] = array
        self._types[name] = ValueType(DType.F32, array.shape)
        self._readers[name] = 1
        return name


def _own_name(branch: _Branch) -> str:
    """The input of a branch's program that its weights are."""
    assert branch.window.filter is not None
    return branch.window.filter.weights


def _terms(node: Compute) -> tuple[str, str] | None:
    """The two values that a node adds, element by element; None where it does something else."""
    stages = stages_of(node.program)
    if stages is None or len(stages.stages) != 1 or len(set(stages.types.values())) != 1:
        return None
    (stage,) = stages.stages
    match stage.value:
        case Operation(BinOp.ADD, Read() as a, Read() as b) if _is_whole(a, stage) and _is_whole(b, stage):
            given = node.input_values(stages.inputs)
            return given[a.buffer], given[b.buffer]
    return None


def _is_whole(read: Read, stage: Stage) -> bool:
    """Whether a read is of the element at a stage's own indices; of a dimension of one element, at 0 or any other."""
    return all(index in (Name(axis.name), IntLit(0)) for index, axis in zip(read.indices, stage.axes, strict=True))


def _has_places_of(whole: Window, part: Window) -> bool:
    """Whether a window of the same data has all places that another has, and channels as it has."""
    return (
        (whole.data, whole.type, whole.strides) == (part.data, part.type, part.strides)
        and part.places.keys() <= whole.places.keys()
        and (whole.mixes_channels or not part.mixes_channels)
        and len({whole.channel, part.channel} - {None}) <= 1
    )


def _channel_of(*windows: Window) -> int | None:
    return next((window.channel for window in windows if window.channel is not None), None)


def _shifted(inner: _Branch, own: Window) -> _Branch | None:
    """A branch that is multiplied by numbers, and to which others are added; None where that is no branch.

    Nor is it where a number becomes too large: an element may be small enough for what it is multiplied by in turn.
    """
    window = inner.window
    whole = whole_value(own.data, own.type)
    if own.strides != whole.strides or own.places.keys() != whole.places.keys() or own.mixes_channels:
        return None
    if len({window.channel, own.channel} - {None}) > 1:
        return None
    (by,) = own.places.values()
    channel = _channel_of(window, own)
    if by.ndim == 0 and by == 1:
        return replace(inner, window=replace(window, offset=window.offset + own.offset, channel=channel))
    places = {
        place: numbers * (by[:, None] if numbers.ndim == 2 and by.ndim else by)
        for place, numbers in window.places.items()
    }
    if not all(np.isfinite(numbers).all() for numbers in places.values()):
        return None
    made = replace(window, places=places, offset=window.offset * by + own.offset, channel=channel)
    if not np.any(inner.own_offset):
        return replace(inner, window=made)
    # The node would add a number that is not multiplied.
    return _Branch(replace(made, filter=None, offset=inner.offset * by + own.offset))
