"""Factors and offsets by constants, such as those of a batch norm, are worked out ahead; factors go into weights.

A chain of sums and products with constants is a factor and an offset, each an array over the indices that the
constants have: both are computed once. A chain that does something else is left as it is: adding and taking away a
large number rounds, and a product of large numbers may be infinite. So is a number that is only divided before it is
rounded to a byte: ties stay ties. Where the value is a sum of products with weights, and the factor goes along
dimensions that the weights have, the weights are multiplied by it, and nothing is left of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.affine import Affine, affine_form, is_known
from metasched.graph.fusion.canonical import canonical
from metasched.graph.fusion.expressions import dtype_of, names_in, reads
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Array, Compute, Graph, Node
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.constant_folding import compute_outputs
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp, Reducer
from metasched.ir.source import (
    Apply,
    Axis,
    FloatLit,
    IfElse,
    IntLit,
    Name,
    Operation,
    Read,
    Reduce,
    SourceExpr,
    SourceNode,
    Stage,
)
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing
from metasched.target import Target

# What an offset is of the sum of its terms' sizes where they cancel out: a few units in the last place.
_CANCELLED = 2.0**-20
# What chains are worked out in: floats, and what bytes are rounded from.
_RESULTS = (DType.F32, DType.U8, DType.I8)


@graph_pass(after=("fusion",))
def scales_into_weights(graph: Graph, context: PassContext) -> Graph:
    """Factors and offsets by constants are worked out ahead, and factors go into weights."""
    weights = _Weights(graph, context.options.target)
    nodes: list[Node] = []
    for node in graph.nodes:
        made = _rewritten(node, weights) if isinstance(node, Compute) else node
        if made is not node:
            context.remark(f"`{node.name}`: {'+'.join(_changes(node, made))}")
        nodes.append(made)
    return remove_dead_code(replace(graph, nodes=tuple(nodes), constants=weights.arrays, types=weights.types))


def _changes(node: Node, made: Node) -> Iterator[str]:
    new = [name for name in made.inputs if name not in node.inputs]
    yield f"it reads {listing(new)} now" if new else "it needs fewer constants"


class _Weights:
    """The constants of a graph, and those that are made of them."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.arrays = dict(graph.constants)
        self.types = dict(graph.types)
        self._target = target
        self._readers: dict[str, int] = {}
        self._computed: dict[tuple[str, tuple[str, ...]], Array] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self._readers[name] = self._readers.get(name, 0) + 1

    def single(self, name: str) -> bool:
        """Whether one node alone reads a constant."""
        return name in self.arrays and self._readers.get(name) == 1

    def add(self, like: str, array: Array, dtype: DType) -> str:
        """A new constant."""
        name, number = f"{like}.scaled", 0
        while name in self.types:
            number += 1
            name = f"{like}.scaled.{number}"
        self.arrays[name] = array
        self.types[name] = ValueType(dtype, array.shape)
        self._readers[name] = 1
        return name

    def constant(self, e: SourceExpr, site: _Site) -> Array:
        """The elements of an expression over constants, along the indices of a stage that it uses."""
        axes = _axes_of(site, e)
        shape = tuple(site.extents[axis] for axis in axes)
        used = tuple(dict.fromkeys(read.buffer for read in reads(e)))
        types = {name: site.stages.types[name] for name in used} | {"=": ValueType(DType.F32, shape)}
        stage = Stage(None, "=", tuple(Axis(axis) for axis in axes), e)
        made, inputs, _ = canonical(Stages(types, used, frozenset(used), ("=",), (stage,)))
        given = tuple(site.given[name] for name in inputs)
        program = program_of(made, "constants")
        key = program.structural_hash(), given
        if key not in self._computed:
            arrays = [self.arrays[name] for name in given]
            self._computed[key] = compute_outputs(program, arrays, self._target)[0]
        return self._computed[key]


@dataclass(frozen=True)
class _Site:
    """A stage of a node's program: what its inputs are called in the graph, and the extents of its indices."""

    stages: Stages
    stage: Stage
    given: dict[str, str]
    constants: frozenset[str]
    extents: dict[str, int]

    @property
    def quantises(self) -> bool:
        """Whether the stage makes bytes: what it rounds to them may be a tie."""
        return self.stages.types[self.stage.buffer].dtype is not DType.F32


def _rewritten(node: Compute, weights: _Weights) -> Compute:
    """A node whose chains of constants are worked out; itself where it has none."""
    stages = stages_of(node.program)
    if stages is None:
        return node
    given = node.input_values(stages.inputs)
    changed = False
    while (made := _fold_one_chain(stages, given, weights)) is not None:
        stages, changed = made, True
    if not changed:
        return node
    stages = replace(stages, consts=frozenset(n for n in stages.inputs if given[n] in weights.arrays))
    final, inputs, _ = canonical(stages)
    return replace(node, program=program_of(final, node.program.name), inputs=tuple(given[name] for name in inputs))


def _fold_one_chain(stages: Stages, given: dict[str, str], weights: _Weights) -> Stages | None:
    """The stages with one chain worked out; None where there is none. `given` gets the names of new constants."""
    constants = frozenset(name for name in stages.inputs if given[name] in weights.arrays)
    for stage in stages.stages:
        if isinstance(stage.value, Reduce) or stages.types[stage.buffer].dtype not in _RESULTS:
            continue
        site = _Site(stages, stage, given, constants, stages.extents(stage))
        for part in _open_parts(site):
            found = affine_form(part, lambda read: read.buffer in constants)
            made = _fold_chain(site, part, found, weights) if found.steps else None
            if made is not None:
                return made
    return None


def _open_parts(site: _Site) -> Iterator[SourceExpr]:
    """What chains are looked for in: all of a stage that makes floats, and of bytes what is rounded to the nearest.

    What is cut off, as in `u8(x * c)`, is often a whole number, and could become one less.
    """
    for node in site.stage.value.walk():
        if not site.quantises:
            if isinstance(node, SourceExpr):
                yield node
        elif isinstance(node, Apply) and node.func == "rint":
            yield from (part for part in node.walk() if isinstance(part, SourceExpr))


def _fold_chain(site: _Site, part: SourceExpr, found: Affine, weights: _Weights) -> Stages | None:
    types = site.stages.dtypes
    if dtype_of(part, types) is not DType.F32 or (site.quantises and _only_divides(found)):
        return None
    if not list(reads(found.value)) or is_known(found.value, lambda read: read.buffer in site.constants):
        return None
    if not all(_is_within(site, e) for e in (found.factor, found.offset) if e is not None):
        return None
    if _occurrences(site.stage, found.value) != _occurrences(site.stage, part):
        # It is there in another form, too: what they share would be computed twice.
        return None
    if not _is_sound(site, found, weights):
        return None
    stages, value = site.stages, found.value
    scaled = None if found.factor is None else _scale_weights(site, found, weights)
    if scaled is None and _is_simple(found.factor) and _is_simple(found.offset):
        return None
    if scaled is not None:
        stages = scaled
    elif found.factor is not None:
        stages, factor = _add_constant(stages, site, found.factor, weights)
        value = Operation(BinOp.MUL, value, factor)
    if found.offset is not None:
        stages, offset = _add_constant(stages, site, found.offset, weights)
        value = Operation(BinOp.ADD, value, offset)
    return _replace_part(stages, site.stage, part, value)


def _only_divides(found: Affine) -> bool:
    """Whether nothing is done to a value but that a constant divides it: a factor in its place would round anew."""
    match found.factor:
        case Operation(BinOp.DIV, FloatLit(1.0)):
            return found.offset is None
    return False


def _is_sound(site: _Site, found: Affine, weights: _Weights) -> bool:
    """Whether a factor and an offset, worked out ahead, do what the chain does.

    They do not where one is too large to be a number, and where an offset is far smaller than what it is the sum of: it
    is as if its terms had never been there, and the chain rounds to their digits.
    """
    made = [e for e in (found.factor, found.offset) if e is not None and not _is_simple(e)]
    if not all(np.isfinite(weights.constant(e, site)).all() for e in made):
        return False
    if found.offset is None or len(found.terms) < 2:
        return True
    first, *others = (Apply("abs", (term,)) for term in found.terms)
    total: SourceExpr = first
    for other in others:
        total = Operation(BinOp.ADD, total, other)
    offset, size = (np.abs(weights.constant(e, site)) for e in (found.offset, total))
    return not (offset < size * _CANCELLED).any()


def _is_within(site: _Site, e: SourceExpr) -> bool:
    """Whether constants have all the places that a stage's indices take, which a concatenation guards them from."""
    if not any(isinstance(node, IfElse) for node in site.stage.value.walk()):
        return True
    return all(
        isinstance(index, IntLit) or (isinstance(index, Name) and site.extents[index.name] <= extent)
        for read in reads(e)
        for index, extent in zip(read.indices, site.stages.types[read.buffer].shape, strict=True)
    )


def _occurrences(stage: Stage, part: SourceExpr) -> int:
    """How often an expression is there in a stage."""
    return sum(1 for node in stage.value.walk() if node == part)


def _is_simple(e: SourceExpr | None) -> bool:
    """Whether a factor or an offset is one constant as it is, or a number: nothing can be worked out ahead."""
    return e is None or isinstance(e, Read) or not list(reads(e))


def _add_constant(stages: Stages, site: _Site, e: SourceExpr, weights: _Weights) -> tuple[Stages, SourceExpr]:
    """A new constant with the elements of an expression, and its read; the expression where it is one already."""
    if _is_simple(e):
        return stages, e
    axes, array = _axes_of(site, e), weights.constant(e, site)
    like = next((site.given[read.buffer] for read in reads(e)), "constant")
    name = weights.add(like, array, DType.F32)
    own = f"={name}"
    site.given[own] = name
    types = {**stages.types, own: weights.types[name]}
    return replace(stages, types=types, inputs=(*stages.inputs, own)), Read(own, tuple(Name(axis) for axis in axes))


def _axes_of(site: _Site, e: SourceExpr) -> tuple[str, ...]:
    """The indices of a stage that an expression uses, in the stage's order."""
    used = names_in(e)
    return tuple(axis.name for axis in site.stage.axes if axis.name in used)


def _scale_weights(site: _Site, found: Affine, weights: _Weights) -> Stages | None:
    """The stages with a factor in the weights of a sum of products; None where it cannot go there."""
    read, factor = found.value, found.factor
    assert factor is not None
    if not isinstance(read, Read):
        return None
    source = site.stages.by_buffer.get(read.buffer)
    others = [r for stage in site.stages.stages for r in reads(stage.value) if r.buffer == read.buffer]
    value = None if source is None else source.value
    here = _occurrences(site.stage, read)
    if len(others) != here or source is None or not isinstance(value, Reduce) or value.reducer is not Reducer.SUM:
        return None
    # The factor's indices as those of the stage that sums.
    inner = {e.name: axis.name for e, axis in zip(read.indices, source.axes, strict=True) if isinstance(e, Name)}
    axes = _axes_of(site, factor)
    if not set(axes) <= set(inner):
        return None
    weight = next((w for w in _factors(value.operand) if _can_scale(site, w, {inner[a] for a in axes}, weights)), None)
    if weight is None:
        return None
    array = weights.arrays[site.given[weight.buffer]]
    along = [e.name if isinstance(e, Name) else "" for e in weight.indices]
    values = weights.constant(factor, site)
    places = sorted(range(len(axes)), key=lambda n: along.index(inner[axes[n]]))
    shape = [1] * array.ndim
    for n in places:
        shape[along.index(inner[axes[n]])] = values.shape[n]
    made = np.ascontiguousarray(array * values.transpose(places).reshape(shape), array.dtype)
    site.given[weight.buffer] = weights.add(site.given[weight.buffer], made, DType.F32)
    return site.stages


def _factors(e: SourceExpr) -> Iterator[Read]:
    """The reads that a product multiplies."""
    if isinstance(e, Operation) and e.op is BinOp.MUL:
        yield from _factors(e.a)
        yield from _factors(e.b)
    elif isinstance(e, Read):
        yield e


def _can_scale(site: _Site, weight: Read, axes: set[str], weights: _Weights) -> bool:
    """Whether weights have dimensions along these indices of the stage that sums, and nothing else reads them."""
    along = [e.name for e in weight.indices if isinstance(e, Name)]
    same = [r for stage in site.stages.stages for r in reads(stage.value) if r.buffer == weight.buffer]
    return (
        weight.buffer in site.constants
        and len(same) == 1
        and site.stages.types[weight.buffer].dtype is DType.F32
        and weights.single(site.given[weight.buffer])
        and axes <= set(along)
        and all(along.count(axis) == 1 for axis in axes)
    )


def _replace_part(stages: Stages, stage: Stage, part: SourceExpr, value: SourceExpr) -> Stages:
    def visit(node: SourceNode) -> SourceNode:
        return value if node == part else node.map(visit)

    changed = visit(stage.value)
    assert isinstance(changed, SourceExpr)
    return replace(stages, stages=tuple(replace(s, value=changed) if s is stage else s for s in stages.stages))
