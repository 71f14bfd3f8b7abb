"""Tensor intrinsics, and matching loop nests against them.

A tensorised nest keeps its loops, so that passes need not treat it specially; its outermost loop has the annotation
`tensorize` with the intrinsic's name. Lowering matches again, and emits the intrinsic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from itertools import permutations
from math import inf, prod
from types import MappingProxyType, ModuleType
from typing import Any

from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.index_map import image, image_shape, resolve
from metasched.ir.integers.affine import ONE, NotAffine, as_int, free_vars, linear, simplify, substitute
from metasched.ir.integers.implied_guards import is_implied
from metasched.ir.nodes import (
    Annotation,
    Binary,
    BinOp,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    Load,
    LoopKind,
    Stmt,
    Var,
)
from metasched.ir.printer import print_expr
from metasched.lang import parse_program
from metasched.schedule.annotation import known_annotations
from metasched.schedule.annotations.flush_denormals import flush_denormals
from metasched.schedule.annotations.tensorize import tensorize
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.declared_files import Constant, DeclaredFiles, constants
from metasched.support.documentation import documentation
from metasched.support.messages import listing

_COMMUTE = frozenset({BinOp.ADD, BinOp.MUL, BinOp.MIN, BinOp.MAX})


@dataclass(frozen=True)
class Intrinsic:
    """A tensor intrinsic; the only block of `func` defines its update of the output.

    `features` are LLVM's names of the instruction sets that it requires, and `vector_bits` is the size of the registers
    that it uses (0 with `tiles`). `dense` is the number of an operand's last axes that must be contiguous in memory, if
    more than one; `layout` tells the user, in messages, how to arrange that. With `flushes_denormals` it treats
    denormals as zero. With `tiles` its output stays in dedicated tile registers.

    What it costs: `throughput` cycles from one use to the next, `latency` cycles until the next use may add to the same
    output, and `registers` vectors beside those of its operands.
    """

    name: str
    doc: str
    features: frozenset[str]
    func: Func
    vector_bits: int = 0
    dense: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    layout: str = ""
    flushes_denormals: bool = False
    tiles: bool = False
    throughput: float = 1.0
    latency: float = 5.0
    registers: int = 0

    def __repr__(self) -> str:
        return f"<intrinsic {self.name}>"

    @cached_property
    def block(self) -> Block:
        return query.blocks(self.func)[0]

    @cached_property
    def operands(self) -> tuple[Load, ...]:
        """What is written, then the inputs in the order of the arguments, as the block accesses them."""
        block = self.block
        loads = {load.buffer: load for load in query.loads(block.store.value)}
        written = Load(block.store.buffer, block.store.indices, self.func.buffer(block.store.buffer).dtype)
        return (written, *(loads[name] for name in self.func.order))

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Iteration variables, outermost first in the nest that lowering makes: reductions, then the others, the lanes
        last."""
        spatial = [_name(e) for e in self.block.store.indices]
        return (*(it.name for it in self.block.iters if it.name not in spatial), *spatial)

    @property
    def block_axes(self) -> tuple[str, ...]:
        """Iteration variables in the order of its program."""
        return tuple(it.name for it in self.block.iters)

    @property
    def lanes(self) -> int:
        """Elements along the last axis of its output."""
        return self.extent(self.axes[-1])

    @property
    def products(self) -> int:
        """Products that one use adds up, over its whole output."""
        return prod(self.extent(axis) for axis in self.axes)

    @cached_property
    def form(self) -> str:
        """What it computes, but for how many lanes: instructions of one form differ in their registers alone."""
        types = ", ".join(f"{x.buffer}: {x.type}" for x in self.operands)
        extents = ", ".join(f"{axis} < {self.extent(axis)}" for axis in self.axes[:-1])
        written = print_expr(self.operands[0])
        return f"{written} {self.block.reducer} {print_expr(self.block.store.value)} of {types} with {extents}"

    @property
    def rows(self) -> int:
        """Vectors, or rows of a tile, that hold its output."""
        written = prod(self.extent(_name(e)) for e in self.block.store.indices)
        return written // self.lanes if self.tiles else written * self.operands[0].type.bits // self.vector_bits

    def last_extent(self, operand: Load) -> int:
        """Elements along the last axis of an operand."""
        return self.extent(_name(operand.indices[-1]))

    def first_extent(self, operand: Load) -> int:
        """Elements along the first axis of an operand."""
        return self.extent(_name(operand.indices[0]))

    def dense_axes(self, operand: Load) -> int:
        """How many of an operand's last axes must be contiguous in memory."""
        return self.dense.get(operand.buffer, 1)

    @cached_property
    def _extents(self) -> Mapping[str, int]:
        return {it.name: size for it in self.block.iters if (size := as_int(it.extent)) is not None}

    def extent(self, axis: str) -> int:
        return self._extents[axis]


def _name(e: Expr) -> str:
    assert isinstance(e, Var)
    return e.name


# Cycles after its last issue until the sums of an instruction are there, where its file does not say so.
_PIPELINE = 4.0

# The constants in a file of `metasched.schedule.intrinsics`, with their defaults.
_CONSTANTS = MappingProxyType(
    {
        "FEATURES": Constant(tuple),
        "PROGRAM": Constant(str),
        "VECTOR_BITS": Constant(int, 0),
        "TILES": Constant(bool, default=False),
        "DENSE": Constant(dict, MappingProxyType({})),
        "LAYOUT": Constant(str, ""),
        "FLUSHES_DENORMALS": Constant(bool, default=False),
        "THROUGHPUT": Constant((float, int), None),
        "LATENCY": Constant((float, int), None),
        "REGISTERS": Constant(int, 0),
    }
)


def intrinsic_of(name: str, module: ModuleType) -> Intrinsic:
    """The intrinsic that a module declares. Raises TypeError for missing, misspelled or contradictory constants."""
    declared = constants("intrinsic", name, module, _CONSTANTS)
    doc = documentation(module)
    if doc is None:
        raise TypeError(f"intrinsic {name}: its file begins with documentation")
    func = parse_program(declared["PROGRAM"]).func
    blocks = query.blocks(func)
    if func.name != name or len(blocks) != 1:
        raise TypeError(f"intrinsic {name}: `PROGRAM` is one stage, and has the name of the file")
    if not func.outputs[0].shape or blocks[0].reducer is None:
        raise TypeError(f"intrinsic {name}: it reduces into an output of at least one dimension")
    dense = declared["DENSE"]
    ranks = {b.name: len(b.shape) for b in (*func.inputs, *func.outputs)}
    if any(not 1 <= count <= ranks.get(operand, 0) for operand, count in dense.items()):
        raise TypeError(f"intrinsic {name}: `DENSE` counts the last axes of its operands, and it says {dense}")
    found = Intrinsic(
        name=name,
        doc=doc,
        features=frozenset(declared["FEATURES"]),
        func=func,
        vector_bits=declared["VECTOR_BITS"],
        dense=MappingProxyType(dict(dense)),
        layout=declared["LAYOUT"],
        flushes_denormals=declared["FLUSHES_DENORMALS"],
        tiles=declared["TILES"],
    )
    _require_vectors(found)
    return _set_costs(found, declared)


def _set_costs(found: Intrinsic, declared: Mapping[str, Any]) -> Intrinsic:
    """The intrinsic with what it costs; a vector or a row of a tile takes a cycle, unless its file says otherwise.

    Raises TypeError for cycles or registers that cannot be.
    """
    throughput = float(found.rows if declared["THROUGHPUT"] is None else declared["THROUGHPUT"])
    latency = float(throughput + _PIPELINE if declared["LATENCY"] is None else declared["LATENCY"])
    if not (0 < throughput < inf and throughput <= latency < inf):
        raise TypeError(
            f"intrinsic {found.name}: `THROUGHPUT` is the cycles from one use to the next and `LATENCY` those until "
            f"its sums may be added to, as many or more; it says {throughput:g} and {latency:g}"
        )
    if declared["REGISTERS"] < 0:
        raise TypeError(f"intrinsic {found.name}: `REGISTERS` counts vectors, and it says {declared['REGISTERS']}")
    return replace(found, throughput=throughput, latency=latency, registers=declared["REGISTERS"])


def _require_vectors(found: Intrinsic) -> None:
    """Raise TypeError unless the intrinsic's output is whole vectors, or a tile."""
    if found.tiles and found.vector_bits:
        raise TypeError(f"intrinsic {found.name}: it has `TILES`, whose size is not to be said, and `VECTOR_BITS`")
    written = found.lanes * found.operands[0].type.bits
    if not found.tiles and (found.vector_bits < 1 or written % found.vector_bits):
        raise TypeError(
            f"intrinsic {found.name}: `VECTOR_BITS` is the size of its registers, and it says {found.vector_bits}, "
            f"where the last axis of its output has {written} bits"
        )


FILES = DeclaredFiles("metasched.schedule.intrinsics", "intrinsic", intrinsic_of)


@cache
def intrinsics() -> Mapping[str, Intrinsic]:
    """Every tensor intrinsic by name, a file each. Raises TypeError for an incomplete file."""
    return FILES.load()


# --- matching --------------------------------------------------------------------------------------------


class Mismatch(Exception):
    """A nest does not match an intrinsic; the message names the difference."""


@dataclass(frozen=True)
class Match:
    """How a nest matches an intrinsic: `axes` are the loops by the intrinsic's iteration variables.

    The match is valid if all `conditions` hold, which are over free tile variables, and every one of `guards` holds for
    all values of the loops around the block.
    """

    intrinsic: Intrinsic
    block: Block
    axes: Mapping[str, For]
    conditions: tuple[tuple[Expr, str], ...]
    guards: tuple[Expr, ...]


def match(func: Func, loop: For, intrinsic: Intrinsic) -> Match:
    """Match the nest from `loop` inward against `intrinsic`. Raises Mismatch."""
    nest, block = _nest(loop, intrinsic)
    _require_same_block(block, intrinsic)
    values = {it.name: b for it, b in zip(block.iters, block.bindings, strict=True)}
    written = Load(block.store.buffer, block.store.indices, func.buffer(block.store.buffer).dtype)
    ranges = query.ranges(query.loops_above(func, block.name))
    orders = _orders(intrinsic, block, nest)
    why: Mismatch | None = None
    for found in unify_operands(intrinsic, written, block.store.value):
        operands = [_memory_access(func.buffer(x.buffer), x, values, ranges) for x in found]
        shapes = [_shape_in_memory(func.buffer(x.buffer)) for x in found]
        for axes in orders:
            try:
                _require_accesses(intrinsic, operands, shapes, axes)
            except Mismatch as error:
                why = why or error
                continue
            guards = _dividing_guards(block, frozenset(x.var for x in nest), ranges)
            return Match(intrinsic, block, axes, _extents(intrinsic, axes), guards)
    raise why or Mismatch(different_values(block.store.value, intrinsic))


def _dividing_guards(block: Block, nest: frozenset[str], ranges: Mapping[str, Expr]) -> tuple[Expr, ...]:
    """The guards that may leave out a part of a nest: those over its loops that guards around it do not imply.

    With a tile of 16 for the nest, `16*t + n < 112` holds for all of `n` wherever `t < 7` does.
    """
    around = [g for g in block.guards if not free_vars(g) & nest]
    return tuple(g for g in block.guards if free_vars(g) & nest and not is_implied(g, around, ranges))


def different_values(value: Expr, intrinsic: Intrinsic) -> str:
    """The message that a block computes another value, or has operands of other types."""
    mine, theirs = _element_types(value), _element_types(intrinsic.block.store.value)
    if mine == theirs or len(mine) != len(theirs):
        return f"it computes {print_expr(value)}, the intrinsic {print_expr(intrinsic.block.store.value)}"
    shown = " and ".join(f"{load.type} (`{load.buffer}`)" for load in query.loads(value))
    text = f"its operands are {shown}, the intrinsic's {' and '.join(map(str, theirs))}"
    fitting = [name for name, other in intrinsics().items() if _element_types(other.block.store.value) == mine]
    return f"{text}; {listing(fitting)} would fit" if fitting else text


def intrinsics_for(block: Block, dtype: DType) -> tuple[Intrinsic, ...]:
    """The intrinsics for reductions of products such as a block's into sums of `dtype`, whatever its loops are."""
    factors = _factors(block.store.value)
    if factors is None or block.index is not None:
        return ()
    return tuple(
        found
        for found in intrinsics().values()
        if found.block.reducer is block.reducer
        and found.operands[0].type is dtype
        and _factors(found.block.store.value) == factors
    )


def _factors(value: Expr) -> frozenset[tuple[DType, int]] | None:
    """The types of what a product multiplies, before they are widened, with how many there are; None for no product."""
    if not isinstance(value, Binary) or value.op is not BinOp.MUL:
        return None
    types = [(side.value if isinstance(side, Cast) else side).dtype for side in (value.a, value.b)]
    return frozenset((dtype, types.count(dtype)) for dtype in types)


def _element_types(value: Expr) -> list[DType]:
    """The types of what is read, in order."""
    return [load.type for load in query.loads(value)]


def _nest(loop: For, intrinsic: Intrinsic) -> tuple[list[For], Block]:
    nest = [loop]
    while isinstance(nest[-1].body, For):
        nest.append(nest[-1].body)
    inside = nest[-1].body
    if not isinstance(inside, Block):
        raise Mismatch(f"loop `{nest[-1].var}` holds more than one statement")
    if len(nest) != len(intrinsic.axes):
        raise Mismatch(f"there are {len(nest)} loops from `{loop.var}` inward, the intrinsic has {len(intrinsic.axes)}")
    other = next((x for x in nest if x.kind is not LoopKind.SERIAL), None)
    if other is not None:
        raise Mismatch(f"loop `{other.var}` is {other.kind.value}")
    return nest, inside


def _require_same_block(block: Block, intrinsic: Intrinsic) -> None:
    wanted = intrinsic.block.reducer
    if block.reducer is not wanted or block.index is not None:
        assert wanted is not None
        raise Mismatch(f"block `{block.name}` is no reduction by `{wanted.value}`")
    if intrinsic.flushes_denormals and flush_denormals.value(block.annotations) is None:
        raise Mismatch(
            f"it takes denormals for zero, which block `{block.name}` does not allow; "
            f'annotate({block.name}, "{flush_denormals.name}", True) allows it'
        )


def unify_operands(intrinsic: Intrinsic, written: Load, value: Expr) -> Iterator[tuple[Load, ...]]:
    """Every assignment of accesses to the intrinsic's operands in an update of `written` by `value`."""
    pattern = intrinsic.block
    target = intrinsic.operands[0]
    if target.type is not written.type:
        raise Mismatch(f"`{written.buffer}` is {written.type}, the intrinsic's `{target.buffer}` {target.type}")
    for found in _unify(pattern.store.value, value, {target.buffer: written}):
        yield tuple(found[x.buffer] for x in intrinsic.operands)


def _unify(pattern: Expr, value: Expr, known: dict[str, Load]) -> Iterator[dict[str, Load]]:
    if isinstance(pattern, Load):
        if isinstance(value, Load) and value.type is pattern.type and known.get(pattern.buffer, value) == value:
            yield {**known, pattern.buffer: value}
    elif isinstance(pattern, Const):
        if pattern == value:
            yield known
    elif isinstance(pattern, Cast):
        if isinstance(value, Cast) and value.type is pattern.type:
            yield from _unify(pattern.value, value.value, known)
    elif isinstance(pattern, Binary) and isinstance(value, Binary) and pattern.op is value.op:
        sides = [(value.a, value.b), (value.b, value.a)] if pattern.op in _COMMUTE else [(value.a, value.b)]
        for a, b in sides:
            for found in _unify(pattern.a, a, known):
                yield from _unify(pattern.b, b, found)


def _memory_access(buffer: Buffer, access: Load, values: Mapping[str, Expr], ranges: Mapping[str, Expr]) -> Load:
    """An access in terms of loops, with one index for each dimension in memory."""
    indices = tuple(substitute(e, values) for e in access.indices)
    if buffer.layout is not None:
        indices = image(buffer.layout, indices)
    return Load(access.buffer, tuple(resolve(e, ranges) for e in indices), access.type)


def _shape_in_memory(buffer: Buffer) -> tuple[Expr, ...]:
    return buffer.shape if buffer.layout is None else image_shape(buffer.layout, buffer.shape)


def _orders(intrinsic: Intrinsic, block: Block, nest: list[For]) -> list[dict[str, For]]:
    """Every assignment of loops to the intrinsic's axes that maps reductions to reductions. Raises Mismatch."""
    reducing = query.reduced_loops(block)
    reduced = [it.name for it in intrinsic.block.iters if it.kind is IterKind.REDUCE]
    found = sum(loop.var in reducing for loop in nest)
    if found != len(reduced):
        raise Mismatch(f"{found} of its loops reduce, of the intrinsic's {len(reduced)}")
    ways = (dict(zip(intrinsic.axes, order, strict=True)) for order in permutations(nest))
    return [axes for axes in ways if all((axes[a].var in reducing) is (a in reduced) for a in axes)]


def _require_accesses(
    intrinsic: Intrinsic, operands: list[Load], shapes: list[tuple[Expr, ...]], axes: Mapping[str, For]
) -> None:
    of_loop = {loop.var: axis for axis, loop in axes.items()}
    for operand, access, shape in zip(intrinsic.operands, operands, shapes, strict=True):
        wanted = [_name(e) for e in operand.indices]
        places: dict[str, tuple[int, Expr]] = {}
        for d, index in enumerate(access.indices):
            for digit, step in _digits(access, index, of_loop):
                axis = of_loop[digit]
                if axis not in wanted or axis in places:
                    raise Mismatch(
                        f"`{access.buffer}` is not read as the intrinsic's `{operand.buffer}`: loop `{digit}`"
                    )
                places[axis] = (d, step)
        for axis in wanted:
            if axis not in places:
                raise Mismatch(f"`{access.buffer}` does not go along loop `{axes[axis].var}`")
        last = places[wanted[-1]]
        if last[0] != len(access.indices) - 1 or last[1] != ONE:
            raise Mismatch(f"`{access.buffer}` is not contiguous along loop `{axes[wanted[-1]].var}`")
        size = intrinsic.extent(wanted[-1])
        for axis in reversed(wanted[-intrinsic.dense_axes(operand) : -1]):
            if not _follows(places[axis], last, size, shape):
                raise Mismatch(
                    f"`{access.buffer}` has gaps along loop `{axes[axis].var}`, where the intrinsic's "
                    f"`{operand.buffer}` has rows without"
                )
            last, size = places[axis], size * intrinsic.extent(axis)


def _follows(axis: tuple[int, Expr], inner: tuple[int, Expr], size: int, shape: tuple[Expr, ...]) -> bool:
    """Whether the stride of an axis is `size` elements, the size of the axes inside it."""
    if axis[0] == inner[0]:
        return axis[1] == Const(size)
    return axis == (inner[0] - 1, ONE) and inner[1] == ONE and shape[inner[0]] == Const(size)


def _digits(access: Load, index: Expr, of_loop: Mapping[str, str]) -> Iterator[tuple[str, Expr]]:
    try:
        _, terms = linear(index, frozenset(of_loop))
    except NotAffine:
        terms = {index: ONE}
    for digit, step in terms.items():
        if not isinstance(digit, Var):
            raise Mismatch(f"`{access.buffer}` is not linear in the loops: {print_expr(index)}")
        yield digit.name, simplify(step)


def _extents(intrinsic: Intrinsic, axes: Mapping[str, For]) -> tuple[tuple[Expr, str], ...]:
    out = []
    for axis, loop in axes.items():
        wanted = Const(intrinsic.extent(axis))
        why = f"loop `{loop.var}` has {print_expr(loop.extent)} iterations, the intrinsic's `{axis}` {wanted.value}"
        out.append((Binary(BinOp.EQ, loop.extent, wanted), why))
    return tuple(out)


# --- tensorised loops ------------------------------------------------------------------------------------


def tensorized_by(loop: For) -> str | None:
    """The name of the intrinsic that a loop is tensorised by."""
    name = tensorize.value(loop.annotations)
    assert name is None or isinstance(name, str)
    return name


def other_annotations(loop: For) -> tuple[Annotation, ...]:
    """A loop's annotations that a copy of it around something else keeps."""
    return tuple(a for a in loop.annotations if known_annotations()[a.key].of_copies)


def tensorized(func: Func) -> dict[str, For]:
    """The outermost loops of tensorised nests, by the block inside."""
    return {query.blocks_under(x)[0].name: x for x in query.loops(func) if tensorized_by(x) is not None}


def vector_form(func: Func, loop: For) -> For:
    """A tensorised nest as ordinary loops of similar cost: lanes vectorised, the others unrolled around them.

    Raises Mismatch.
    """
    name = tensorized_by(loop)
    assert name is not None
    intrinsic = intrinsics()[name]
    found = match(func, loop, intrinsic)
    stmt: Stmt = found.block
    for n, axis in enumerate(reversed(intrinsic.axes)):
        inner = found.axes[axis]
        kind, lanes = (LoopKind.UNROLLED, None) if n else (LoopKind.VECTORIZED, Const(intrinsic.extent(axis)))
        stmt = For(inner.var, inner.extent, stmt, kind, lanes)
    assert isinstance(stmt, For)
    return replace(stmt, annotations=loop.annotations)


def in_vector_form(func: Func) -> Func:
    """`func` with every tensorised nest in its vector form."""
    for loop in tensorized(func).values():
        func = query.replace_stmt(func, loop, vector_form(func, loop))
    return func


__all__ = [
    "Intrinsic",
    "Match",
    "Mismatch",
    "different_values",
    "in_vector_form",
    "intrinsic_of",
    "intrinsics",
    "intrinsics_for",
    "match",
    "other_annotations",
    "tensorized",
    "tensorized_by",
    "unify_operands",
    "vector_form",
]
