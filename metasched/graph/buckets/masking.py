"""A graph for the largest sizes, which takes those of a call as an input.

Its inputs are those of the model, with room for the largest sizes, and zeros beyond a call's. Then come the numbers of
a call (`masks.CallNumbers`), and constants that are others at other sizes. So one graph, and one set of kernels, serves
every size for which the model says the same but for numbers: `numbers_of` compares it, and refuses any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from metasched.dtypes import DType
from metasched.errors import LanguageError
from metasched.graph.buckets.comparison import Differences, DimPlace, NotAlike, NumberPlace, Place, differences
from metasched.graph.buckets.extents import is_free, product
from metasched.graph.buckets.following import Following
from metasched.graph.buckets.masks import REAL, WHOLE, CallNumbers, MaskedStage, zeroing_stage
from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages, program_of
from metasched.graph.ir import Array, Compute, Graph, LoopNode, Node, ShapeView
from metasched.graph.loop_node import LoopInput, LoopInputKind
from metasched.graph.value_type import ValueType
from metasched.ir.program import Program
from metasched.ir.source import FloatLit, IntLit, Read, Stage
from metasched.support.data_classes import dataclass

# The dimensions of an output as factors, each what it is in the largest graph and in a call.
OutputDims: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]

# What nodes are called that make values zero beyond a call's sizes.
_MASK = "Mask"


@dataclass(frozen=True)
class CallSizes:
    """What a call of some sizes is given and gives.

    Attributes:
        inputs: types of what it is given, by name.
        more: what follows the inputs of the model.
        outputs: for each output, its dimensions as factors: what it is in the largest graph, and what it is here.

    """

    inputs: Mapping[str, ValueType]
    more: tuple[Array, ...]
    outputs: tuple[OutputDims, ...]


@dataclass(frozen=True)
class MaskedGraph:
    """A graph that serves all sizes of a model up to the largest; see `mask_graph`."""

    graph: Graph
    largest: Graph
    following: Following
    numbers: CallNumbers
    varying: tuple[str, ...]

    def numbers_of(self, other: Graph) -> CallSizes:
        """What a call takes of the sizes of a graph of the same model. Raises NotAlike where it has to be its own."""
        found = differences(self.largest, other)
        for following, own in _each_graph(self.following, found):
            for place in following.room:
                following.require_room(place, own)
        known = self._known_numbers(found)
        whole = np.array([self._require_number(known, key) for key in self.numbers.whole] or [0], np.int64)
        real = np.array([self._require_number(known, key) for key in self.numbers.real] or [0.0], np.float64)
        for key in self.numbers.at_most:
            if whole[self.numbers.whole[key]] > key[0]:
                raise NotAlike("a number is larger than at the largest sizes")
        self._require_constants(found)
        more = [self._pad_constant(name, found) for name in self.varying]
        outputs = tuple(self._output(name, known) for _, name in self.largest.outputs)
        self._require_factors(found, known)
        given = {name: other.types[name] for name in other.inputs}
        numbers = [array for array, used in ((whole, self.numbers.whole), (real, self.numbers.real)) if used]
        return CallSizes(given, (*numbers, *more), outputs)

    def _known_numbers(self, found: Differences) -> dict[tuple[float, ...], float]:
        """Numbers that depend on sizes, by what they are in the largest graph and the samples."""
        known: dict[tuple[float, ...], float] = {}
        for following, own in _each_graph(self.following, found):
            places = dict.fromkeys(place for each in (*following.samples, own) for place in each.numbers)
            for place in places:
                largest = _largest_at(following, place)
                key = following.number(place, largest)
                value = own.numbers.get(place, largest)
                if not is_free(key):
                    raise NotAlike("a number depends on sizes here that did not before")
                if known.setdefault(key, value) != value:
                    raise NotAlike("two numbers differ here that were the same before")
        return known

    def _require_number(self, known: Mapping[tuple[float, ...], float], key: tuple[float, ...]) -> float:
        if key not in known:
            raise NotAlike("a size is nowhere in the model")
        return known[key]

    def _require_constants(self, found: Differences) -> None:
        for name, array in found.constants.items():
            if name not in self.varying and not _is_first_part(array, self.largest.constants[name]):
                raise NotAlike(f"the constant `{name}` is another one here")
        for body, own in _bodies(self.following, found):
            _require_first_parts(body, own)

    def _pad_constant(self, name: str, found: Differences) -> Array:
        array = found.constants.get(name, self.largest.constants[name])
        made = np.zeros(self.largest.types[name].shape, array.dtype)
        made[tuple(map(slice, array.shape))] = array
        return made

    def _output(self, name: str, known: Mapping[tuple[float, ...], float]) -> tuple[tuple[tuple[int, int], ...], ...]:
        return tuple(
            tuple((extent[0], self._size(extent, known)) for extent in factors)
            for factors in self.following.values[name]
        )

    def _size(self, extent: tuple[int, ...], known: Mapping[tuple[float, ...], float]) -> int:
        if not is_free(extent):
            return extent[0]
        if extent not in known:
            raise NotAlike("a size is nowhere in the model")
        return int(known[extent])

    def _require_factors(self, found: Differences, known: Mapping[tuple[float, ...], float]) -> None:
        """Raise NotAlike where a dimension that a view made of several is not their product."""
        for following, own in _each_graph(self.following, found):
            for name, dims in following.values.items():
                for dim, (factors, largest) in enumerate(zip(dims, following.graph.types[name].shape, strict=True)):
                    if len(factors) > 1:
                        size = 1
                        for extent in factors:
                            size *= self._size(extent, known)
                        if size != own.numbers.get(DimPlace(name, dim), largest):
                            raise NotAlike(f"`{name}` is taken apart otherwise")


def mask_graph(largest: Graph, samples: Sequence[Graph]) -> MaskedGraph:
    """A graph for all sizes up to the largest, by graphs of the same model at smaller ones.

    Raises NotAlike, which says why, where there is none.
    """
    _require_same_room(largest, samples)
    found = [differences(largest, sample) for sample in samples]
    following = Following(largest, found)
    for each in found:
        for body, own in _bodies(following, each):
            _require_first_parts(body, own)
    numbers = CallNumbers()
    varying = tuple(
        dict.fromkeys(
            name
            for each in found
            for name, array in each.constants.items()
            if not _is_first_part(array, largest.constants[name])
        )
    )
    graph = _Masking(largest, following, numbers, varying).mask()
    graph.validate()
    return MaskedGraph(graph, largest, following, numbers, varying)


def _require_same_room(largest: Graph, samples: Sequence[Graph]) -> None:
    """Raise NotAlike for caches that grow to another length, or of which other dimensions do."""

    def grows(graph: Graph) -> object:
        growth = graph.growth
        if growth is None:
            return None
        values = {name: tuple(b is not None for b in offsets) for name, offsets in growth.values.items()}
        return growth.length, growth.longest, growth.caches, values

    if any(grows(sample) != grows(largest) for sample in samples):
        raise NotAlike("its caches grow in another way")


def _bodies(following: Following, found: Differences) -> Iterator[tuple[Following, Differences]]:
    """The bodies of all loops of a graph, and what differs in each."""
    for number, body in following.bodies.items():
        yield from _each_graph(body, found.bodies[number])


def _each_graph(following: Following, found: Differences) -> Iterator[tuple[Following, Differences]]:
    """A graph and the bodies of its loops, and what differs in each."""
    yield following, found
    yield from _bodies(following, found)


def _require_first_parts(body: Following, found: Differences) -> None:
    """Raise NotAlike where a constant of a loop's body is another one: a call cannot give it."""
    for name, array in found.constants.items():
        if not _is_first_part(array, body.graph.constants[name]):
            raise NotAlike(f"the constant `{name}` of a loop depends on sizes")


@dataclass(frozen=True)
class _Rewritten:
    """A node whose program is to have these stages: `values` are what the program's buffers are."""

    name: str
    op: str
    form: Stages
    values: Mapping[str, str]


class _Masking:
    """A graph, or the body of a loop, whose inputs are no zeros beyond a call's sizes.

    Once all are read it is known which numbers there are, and so how long the inputs are that hold them: then `mask`
    is what they come to.
    """

    def __init__(
        self,
        graph: Graph,
        following: Following,
        numbers: CallNumbers,
        varying: tuple[str, ...] = (),
        *,
        is_body: bool = False,
    ) -> None:
        self._graph = graph
        self._is_body = is_body
        # By the first outputs of loops.
        self._bodies: dict[str, _Masking] = {}
        self._following = following
        self._numbers = numbers
        self._varying = varying
        self._types = dict(graph.types)
        self._zeros: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._limits: dict[str, Read] = {}
        made = dict(graph.outputs)
        self._length = None if graph.growth is None else graph.growth.length
        caches = () if graph.growth is None else graph.growth.caches
        self._lengthened = {made[graph.states[cache]] for cache in caches}
        if {WHOLE, REAL} & graph.types.keys():
            raise NotAlike(f"the model has values that are called {WHOLE} or {REAL}")
        nodes = [self._mask_node(n, node) for n, node in enumerate(graph.nodes)]
        given = (*graph.constants, *(graph.inputs if is_body else ()))
        self._parts: list[Node | _Rewritten] = [part for name in given for part in self._zero_beyond_sizes(name)]
        for node, whole in zip(nodes, graph.nodes, strict=True):
            if isinstance(node, LoopNode):
                self._parts += [self._limit(name) for name in node.inputs if name in self._limits]
            self._parts += [node, *(part for name in whole.outputs for part in self._zero_beyond_sizes(name))]

    def mask(self) -> Graph:
        """The graph in which nothing counts that lies beyond a call's sizes."""
        graph, nodes = self._graph, tuple(map(self._final, self._parts))
        read = {name for node in nodes for name in node.inputs}
        used = {name: type_ for name, type_ in self._number_types.items() if name in read or not self._is_body}
        return replace(
            graph,
            types={**self._types, **used},
            inputs=(*graph.inputs, *used, *self._varying),
            constants={name: array for name, array in graph.constants.items() if name not in self._varying},
            nodes=nodes,
        )

    def _mask_loop_body(self, loop: LoopNode) -> LoopNode:
        """A loop with masks in its body, which may read the numbers of a call."""
        body = self._bodies[loop.outputs[0]].mask()
        more = tuple(name for name in (WHOLE, REAL) if name in body.inputs)
        takes = (*loop.takes, *(LoopInput(LoopInputKind.WHOLE, name) for name in more))
        inputs = (*(self._renamed.get(name, name) for name in loop.inputs), *more)
        return replace(loop, body=body, inputs=inputs, takes=takes)

    @property
    def _number_types(self) -> dict[str, ValueType]:
        found = {WHOLE: (DType.I64, self._numbers.whole), REAL: (DType.F64, self._numbers.real)}
        return {name: ValueType(dtype, (len(keys),)) for name, (dtype, keys) in found.items() if keys}

    def _mask_node(self, number: int, node: Node) -> Node | _Rewritten:
        """A node with its numbers read from the call, and masks."""
        form = self._following.forms.get(number)
        if self._lengthened.intersection(node.outputs):
            # What is written behind the elements of a call means nothing: it is there until the next call's are.
            return node
        if isinstance(node, LoopNode):
            body = self._following.bodies[number]
            self._bodies[node.outputs[0]] = _Masking(node.body, body, self._numbers, is_body=True)
            return self._limit_steps(node)
        if not isinstance(node, Compute) or form is None:
            if set(self._varying) & set(node.inputs):
                raise NotAlike(f"`{node.name}` reads a constant that depends on sizes")
            return node
        stages = []
        named = dict(zip((*form.inputs, *form.outputs), (*node.inputs, *node.outputs), strict=True))
        length = next((own for own, name in named.items() if name == self._length), "")
        for n, stage in enumerate(form.stages):
            one = MaskedStage(number, n, form, self._following, self._numbers, length)
            stages.append(replace(stage, value=one.value()))
            self._zeros |= {named[buffer] for buffer in one.zeros}
        consts = frozenset(own for own in form.consts if named[own] not in self._varying)
        made = replace(form, stages=tuple(stages), consts=consts)
        return node if made == form else _Rewritten(node.name, node.op, made, named)

    def _limit_steps(self, loop: LoopNode) -> LoopNode:
        """A loop that takes as many steps as a call's sizes say."""
        if set(self._varying) & set(loop.inputs):
            raise NotAlike(f"`{loop.name}` reads a constant that depends on sizes")
        factors = self._following.steps_of(loop)
        if not any(map(is_free, factors)):
            return loop
        name = f"{loop.outputs[0]}.limit"
        self._limits[name] = self._numbers.read_number(product(factors, len(factors[0])), True)
        self._types[name] = ValueType(DType.I64, ())
        return replace(loop, inputs=(name, *loop.inputs), takes=(LoopInput(LoopInputKind.LIMIT), *loop.takes))

    def _limit(self, name: str) -> _Rewritten:
        """What reads a number of steps from those of a call."""
        form = Stages({"Y": self._types[name]}, (), frozenset(), ("Y",), (Stage(None, "Y", (), self._limits[name]),))
        return _Rewritten(name, _MASK, form, {"Y": name})

    def _zero_beyond_sizes(self, name: str) -> list[_Rewritten]:
        """Make a value zero beyond a call's sizes, where that is needed; inputs are so."""
        dims = self._following.values[name]
        if name not in self._zeros or name in self._varying or not self._following.is_free(name):
            return []
        made, type_ = f"{name}.zeroed", self._graph.types[name]
        self._renamed[name] = made
        self._types[made] = type_
        consts = frozenset(["A"] if name in self._graph.constants else [])
        stage = zeroing_stage(type_.shape, dims, type_.dtype, self._numbers)
        form = Stages({"A": type_, "Y": type_}, ("A",), consts, ("Y",), (stage,))
        return [_Rewritten(made, _MASK, form, {"A": name, "Y": made})]

    def _final(self, part: Node | _Rewritten) -> Node:
        """A node that reads what is made zero beyond a call's sizes, where that is made."""
        if isinstance(part, ShapeView):
            return replace(part, input=self._renamed.get(part.input, part.input))
        if isinstance(part, LoopNode):
            return self._mask_loop_body(part)
        if not isinstance(part, _Rewritten):
            assert isinstance(part, Compute)
            return replace(part, inputs=tuple(self._renamed.get(name, name) for name in part.inputs))
        used = {read.buffer for stage in part.form.stages for read in reads(stage.value)}
        more = {name: type_ for name, type_ in self._number_types.items() if name in used}
        form = replace(part.form, types={**part.form.types, **more}, inputs=(*part.form.inputs, *more))
        program = _program(form, part.op)
        values = {**part.values, **{name: name for name in more}}
        inputs = tuple(values[buffer.name] for buffer in program.inputs)
        if part.op != _MASK:
            inputs = tuple(self._renamed.get(name, name) for name in inputs)
        return Compute(part.name, part.op, program, inputs, tuple(values[buffer.name] for buffer in program.outputs))


def _program(form: Stages, op: str) -> Program:
    """Raises NotAlike where the language refuses it."""
    try:
        return program_of(form, "masked_" + re.sub(r"\W", "_", op).lower())
    except LanguageError as error:
        raise NotAlike(f"the language has no such program: {error.diagnostics[0].message}") from error


def _largest_at(following: Following, place: Place) -> float:
    """What the largest graph has at a place."""
    graph = following.graph
    if isinstance(place, DimPlace):
        return graph.types[place.value].shape[place.dim]
    form = following.forms.get(place.node)
    if form is None:
        raise NotAlike("a program depends on sizes here that did not before")
    if not isinstance(place, NumberPlace):
        return form.types[place.buffer].shape[place.dim]
    part = list(form.stages[place.stage].value.walk())[place.part]
    assert isinstance(part, IntLit | FloatLit), part
    return part.value


def _is_first_part(array: Array, whole: Array) -> bool:
    """Whether an array has the first elements of another along each dimension."""
    if array.ndim != whole.ndim or any(a > b for a, b in zip(array.shape, whole.shape, strict=True)):
        return False
    return array.shape != whole.shape and array.tobytes() == whole[tuple(map(slice, array.shape))].tobytes()
