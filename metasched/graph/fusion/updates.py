"""Programs that replace a stretch of a tensor: what a decoder does to its cache of keys, whatever the node was called.

Along one axis of such a program's result, from a position on that an input holds, elements are computed of other
inputs; elsewhere they are what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.dtypes import INDEX
from metasched.graph.fusion.expressions import dtype_of, is_cast, reads, rewrite_expression
from metasched.graph.fusion.indices import linear_form
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.value_type import ValueType
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, NotAffine, as_int, coefficient, free_vars, substitute
from metasched.ir.integers.conjunctions import conjuncts
from metasched.ir.nodes import Binary, BinOp, Cast, Expr, Load, Select, Var
from metasched.ir.program import Program
from metasched.ir.source import Apply, IfElse, IntLit, Name, Operation, Read, SourceExpr, SourceNode, Stage
from metasched.support.data_classes import dataclass

_POSITION = "<position>"
# More than any position, for bounds of index arithmetic.
_POSITION_BOUND = 2**40
# How many the limit of `axis - position` moves up, for comparisons with zero; and which limits they are.
_LOWEST = {BinOp.GE: 0, BinOp.GT: 1, BinOp.EQ: 0}
_END_OFFSETS = {BinOp.LT: 0, BinOp.LE: 1, BinOp.EQ: 1}
_MIRRORED_OPS = {BinOp.LT: BinOp.GT, BinOp.LE: BinOp.GE, BinOp.GE: BinOp.LE, BinOp.GT: BinOp.LT, BinOp.EQ: BinOp.EQ}


@dataclass(frozen=True)
class StretchUpdate:
    """An output that is an input with a stretch replaced.

    Attributes:
        whole: the input that the rest is of, by its name in the program.
        position: the input that says where the stretch begins: one whole number.
        axis: the dimension that it runs along.
        first: where it begins, counted from the position.
        count: how many elements along the axis it has.
        stretch: what computes it alone, of the program's other inputs as far as it needs them.

    """

    whole: str
    position: str
    axis: int
    first: int
    count: int
    stretch: Stages


@dataclass(frozen=True)
class PositionApart:
    """A program in two: `position` computes where its stretch begins, which `rest` reads as its input of that name."""

    position: Stages
    rest: Stages


def position_apart(program: Program) -> PositionApart | None:
    """A program whose last stage asks for one whole number that it computes before; None for any other."""
    stages = stages_of(program)
    if stages is None or not isinstance(stages.stages[-1].value, IfElse):
        return None
    names = {read.buffer for read in reads(stages.stages[-1].value.cond)}
    if len(names) != 1 or names & {*stages.inputs}:
        return None
    (name,) = names
    type_ = stages.types[name]
    if type_.size != 1 or not type_.dtype.is_integer:
        return None
    return PositionApart(_select_stages(stages, (name,), ()), _select_stages(stages, stages.outputs, (name,)))


def _select_stages(stages: Stages, outputs: tuple[str, ...], given: tuple[str, ...]) -> Stages:
    """The stages that compute some buffers, with others as inputs."""
    needed, kept = {*outputs}, list[Stage]()
    for stage in reversed(stages.stages):
        if needed.intersection(stage.targets) and not {*given}.intersection(stage.targets):
            kept.insert(0, stage)
            needed.update(read.buffer for read in reads(stage.value))
    made = {name for stage in kept for name in stage.targets}
    types = {name: type_ for name, type_ in stages.types.items() if name in needed | made}
    inputs = tuple(name for name in (*given, *stages.inputs) if name in needed)
    return Stages(types, inputs, stages.consts & {*inputs}, outputs, tuple(kept))


def stretch_update(program: Program) -> StretchUpdate | None:
    """What an unscheduled program replaces; None where it does anything else."""
    stages = stages_of(program)
    if stages is None or len(stages.outputs) != 1 or stages.stages[-1].targets != stages.outputs:
        return None
    final, block = stages.stages[-1], query.blocks(program.func)[-1]
    if not isinstance(final.value, IfElse) or not isinstance(block.store.value, Select) or block.guards:
        return None
    rest = final.value.otherwise
    own = tuple(Name(axis.name) for axis in final.axes)
    if not isinstance(rest, Read) or rest.buffer not in stages.inputs or rest.indices != own:
        return None
    whole = rest.buffer
    if stages.types[whole] != stages.types[final.buffer] or _times_read(stages, whole) != 1:
        return None
    position = _position(stages, final.value.cond)
    if position is None:
        return None
    names = [axis.name for axis in final.axes]
    stretch = _stretch(_use_position_variable(block.store.value.cond, position), names)
    if stretch is None or stretch[1] >= stretch[2]:
        return None
    axis, first, end = stretch
    return StretchUpdate(whole, position, axis, first, end - first, _stretch_stages(stages, position, stretch))


def _times_read(stages: Stages, name: str) -> int:
    return sum(read.buffer == name for stage in stages.stages for read in reads(stage.value))


def _position(stages: Stages, cond: SourceExpr) -> str | None:
    """The one input that a condition reads, if it is one whole number."""
    names = {read.buffer for read in reads(cond)}
    if len(names) != 1 or not names <= {*stages.inputs}:
        return None
    (name,) = names
    type_ = stages.types[name]
    return name if type_.size == 1 and type_.dtype.is_integer else None


_Stretch = tuple[int, int, int]


def _stretch_stages(stages: Stages, position: str, stretch: _Stretch) -> Stages:
    """The stages that compute a stretch: its indices along the axis are counted from its own beginning."""
    axis, first, end = stretch
    final = stages.stages[-1]
    assert isinstance(final.value, IfElse)
    whole = stages.types[final.buffer]
    shape = tuple(end - first if d == axis else n for d, n in enumerate(whole.shape))
    value = _stretch_value(stages, final, position, stretch)
    made = (*stages.stages[:-1], replace(final, value=value))
    needed = {final.buffer}
    kept: list[Stage] = []
    for stage in reversed(made):
        if needed.intersection(stage.targets):
            kept.insert(0, stage)
            needed.update(read.buffer for read in reads(stage.value))
    types = {name: type_ for name, type_ in stages.types.items() if name in needed}
    types[final.buffer] = ValueType(whole.dtype, shape)
    inputs = tuple(name for name in stages.inputs if name in needed)
    return Stages(types, inputs, stages.consts & {*inputs}, stages.outputs, tuple(kept))


def _stretch_value(stages: Stages, final: Stage, position: str, stretch: _Stretch) -> SourceExpr:
    """The value of the elements of a stretch, by indices that are counted from its beginning."""
    assert isinstance(final.value, IfElse)
    axis, first, _ = stretch
    name = final.axes[axis].name
    extents = {**stages.extents(final), _POSITION: _POSITION_BOUND}
    begun = Operation(BinOp.ADD, Operation(BinOp.ADD, Name(name), IntLit(first)), Name(_POSITION))
    at_position = Read(position, (IntLit(0),) * stages.types[position].rank)

    def change(node: SourceNode) -> SourceNode:
        if isinstance(node, Read) and node.buffer == position:
            return Name(_POSITION)
        if node == Name(name):
            return begun
        return node.map(change)

    def simple(node: SourceNode) -> SourceNode:
        if isinstance(node, Read):
            pairs = zip(node.indices, stages.types[node.buffer].shape, strict=True)
            return replace(node, indices=tuple(_clamp_index(_simplify_index(i, extents), n) for i, n in pairs))
        if isinstance(node, Operation) and node.op.is_comparison:
            return replace(node, a=_simplify_index(node.a, extents), b=_simplify_index(node.b, extents))
        return node

    def back(node: SourceNode) -> SourceNode:
        return at_position if node == Name(_POSITION) else node

    value = rewrite_expression(rewrite_expression(change(final.value.then), simple), back)
    assert isinstance(value, SourceExpr)
    return value


def _simplify_index(index: SourceExpr, extents: Mapping[str, int]) -> SourceExpr:
    # A position is read as an index, whatever its type.
    bare = rewrite_expression(index, lambda n: n.args[0] if isinstance(n, Apply) and _casts_position(n) else n)
    found = linear_form(bare, extents)
    return index if found is None else found.expression()


def _casts_position(node: Apply) -> bool:
    return is_cast(node) and node.args == (Name(_POSITION),) and dtype_of(node, {}) is INDEX


def _clamp_index(index: SourceExpr, extent: int) -> SourceExpr:
    """An index that nothing but the position's own limits keeps inside of what is read."""
    if not any(node == Name(_POSITION) for node in index.walk()):
        return index
    return Apply("max", (Apply("min", (index, IntLit(extent - 1))), IntLit(0)))


def _use_position_variable(e: Expr, position: str) -> Expr:
    """An expression with the element of the input `position` as a variable."""
    if isinstance(e, Load) and e.buffer == position:
        return Var(_POSITION)
    e = e.map(lambda child: _use_position_variable(child, position))
    return e.value if isinstance(e, Cast) and e.value == Var(_POSITION) and e.type is INDEX else e


def _stretch(cond: Expr, names: list[str]) -> _Stretch | None:
    """The axis, and the limits of its index less the position, where a condition holds."""
    axes: set[int] = set()
    lows: list[int] = []
    highs: list[int] = []
    for part in conjuncts(cond):
        if not isinstance(part, Binary) or part.op not in _MIRRORED_OPS:
            return None
        found = _linear(Binary(BinOp.SUB, part.a, part.b), [*names, _POSITION])
        if found is None:
            return None
        constant, steps, op = found[0], found[1], part.op
        along = [d for d in range(len(names)) if steps[d]]
        if len(along) != 1 or abs(steps[along[0]]) != 1 or steps[-1] != -steps[along[0]]:
            return None
        if steps[along[0]] < 0:
            constant, op = -constant, _MIRRORED_OPS[op]
        axes.add(along[0])
        lows += [_LOWEST[op] - constant] if op in _LOWEST else []
        highs += [_END_OFFSETS[op] - constant] if op in _END_OFFSETS else []
    if len(axes) != 1 or not lows or not highs:
        return None
    return axes.pop(), max(lows), min(highs)


def _linear(index: Expr, names: list[str]) -> tuple[int, list[int]] | None:
    """A constant, and the coefficient of each variable; None where that is not all."""
    if not index.dtype.is_integer or free_vars(index) - set(names):
        return None
    known: Mapping[str, Expr] = dict.fromkeys((name for name in names if name), ZERO)
    constant = as_int(substitute(index, known))
    if constant is None:
        return None
    try:
        steps = [as_int(coefficient(index, name)) if name else 0 for name in names]
    except NotAffine:
        return None
    whole = [step for step in steps if step is not None]
    return (constant, whole) if len(whole) == len(steps) else None
