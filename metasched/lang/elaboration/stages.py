"""One stage: its axes, its shape, and its block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from metasched.dtypes import INDEX, DType, integer_range
from metasched.ir.integers.affine import simplify
from metasched.ir.nodes import (
    MAX_ITERATIONS,
    Binary,
    BinOp,
    Block,
    Cast,
    Const,
    Expr,
    For,
    IterKind,
    IterVar,
    Reducer,
    Select,
    Stmt,
    Store,
    Var,
    no_position,
)
from metasched.ir.source import Axis, FloatLit, IfElse, IntLit, Name, Read, Reduce, SourceExpr, SourceNode, Stage
from metasched.ir.source_printer import print_domain, print_source, print_stage
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.elaboration.bounds import Assumptions
from metasched.lang.elaboration.extents import BareUse, Evidence, bare_uses, evidence_from_uses, stage_axes
from metasched.lang.elaboration.values import BufferInfo, ProgramScope, StageScope, Values
from metasched.support.cached import cached_property
from metasched.support.messages import listing


class StageBuilder:
    """Elaborates one stage, given the buffers defined before it."""

    def __init__(self, stage: Stage, program: ProgramScope, diagnostics: Diagnostics) -> None:
        self._stage = stage
        self._sizes = program.sizes
        self._types = program.types
        self._buffers = program.buffers
        self._diagnostics = diagnostics
        self._disagreement = False
        self._extents: Mapping[str, int | None] = {}
        self._spatial, self._reduce = stage_axes(stage)
        names = frozenset(axis.name for axis in self._axes)
        self._values = Values(StageScope(program, stage.buffer, names), diagnostics)

    @property
    def _axes(self) -> tuple[Axis, ...]:
        return self._spatial + self._reduce

    def build(self, declared: BufferInfo | None, taken: frozenset[str]) -> tuple[BufferInfo, Block | None]:
        """The buffer the stage defines, as far as it is known, and its block if nothing was wrong."""
        stage = self._stage
        self._check_axes(taken)
        self._check_nesting()
        self._check_targets()
        extents = {axis.name: self._extent(axis, declared) for axis in self._axes}
        self._extents = extents
        info = self._info(declared, extents)
        known = {name: extent for name, extent in extents.items() if extent is not None}
        # Without extents, or with ones in doubt, bounds cannot be judged.
        found = {name: info.positions for name, info in self._buffers.items() if info.positions is not None}
        assumed = Assumptions(known, dead=len(known) < len(extents) or self._disagreement, data=found)
        dtype = info.dtype if info.dtype is not None else DType.F32
        if isinstance(stage.value, Reduce) and dtype.is_storage and stage.value.reducer in (Reducer.SUM, Reducer.PROD):
            self._rounds_each_step(stage.value, dtype)
            return info, None
        value = _terms(stage.value, dtype) if isinstance(stage.value, Reduce) else stage.value
        built = self._values.build_stored(value, dtype, assumed)
        if isinstance(stage.value, Reduce) and dtype.is_bool:
            self._diagnostics.error(
                stage.at, f"`{stage.value.reducer.value}` is not defined on bool", "cast the operand"
            )
            return info, None
        if math.prod(known.values()) > MAX_ITERATIONS:
            message = f"the loops of `{stage.buffer}` would run {math.prod(known.values())} times"
            self._diagnostics.error(
                stage.at, message, f"at most {MAX_ITERATIONS} fit in 64 bits; make the sizes smaller"
            )
            return info, None
        if built is None or info.shape is None or info.dtype is None or len(known) < len(extents):
            return info, None
        return info, self._block(built, known, info.dtype)

    # --- axes ------------------------------------------------------------------------------------------

    def _check_axes(self, taken: frozenset[str]) -> None:
        seen: set[str] = set()
        for axis in self._axes:
            if axis.name in seen:
                self._diagnostics.error(axis.at, f"the index `{axis.name}` appears twice", "rename one of them")
            if axis.name in taken:
                message = f"`{axis.name}` is an index here and something else in the program"
                self._diagnostics.error(axis.at, message, "choose another name for the index")
            seen.add(axis.name)

    def _check_targets(self) -> None:
        stage = self._stage
        is_arg = isinstance(stage.value, Reduce) and stage.value.reducer.is_arg
        indices = ", ".join(axis.name for axis in self._spatial)
        if is_arg and stage.position is None:
            assert isinstance(stage.value, Reduce)
            message = f"`{stage.value.reducer.value}` gives a value and its position"
            value = f"{stage.buffer}_value"
            hint = f"name both: `{value}[{indices}], {stage.buffer}[{indices}] = {print_source(stage.value)}`"
            self._diagnostics.error(stage.at, message, hint)
        elif stage.position is not None and not is_arg:
            message = f"`{stage.buffer}` and `{stage.position}` are computed by one stage, which has one result"
            self._diagnostics.error(stage.at, message, "`argmax` and `argmin` have two; write two stages otherwise")

    def position(self, values: BufferInfo, declared: BufferInfo | None) -> BufferInfo:
        """The buffer of an arg-reduction's positions, besides that of its values."""
        stage = self._stage
        assert stage.position is not None
        if declared is None:
            return BufferInfo(stage.position, INDEX, values.shape, stage.at, positions=self._positions())
        if declared.dtype is not None and not declared.dtype.is_integer:
            message = f"`{stage.position}` holds positions, and is declared as {declared.dtype}"
            self._diagnostics.error(declared.at, message, "positions are integers: `i64`, or `i32`")
        elif declared.shape is not None and values.shape is not None and declared.shape != values.shape:
            shape = ", ".join(map(str, values.shape))
            message = f"`{stage.position}` is declared with another shape than `{stage.buffer}`"
            self._diagnostics.error(declared.at, message, f"a value and its position go together: [{shape}]")
        return replace(declared, positions=self._positions())

    def _positions(self) -> int | None:
        """How many positions there are; None where one may be that of no term, which is larger."""
        value = self._stage.value
        if isinstance(value, Reduce) and value.cond is not None:
            return None
        return self._count_positions()

    def _count_positions(self) -> int | None:
        extents = [self._extents.get(axis.name) for axis in self._reduce]
        return None if None in extents else math.prod(n for n in extents if n is not None)

    def pair_positions(self, block: Block, position: BufferInfo) -> Block | None:
        """The block of an arg-reduction, with its positions: row-major over the axes in the order written."""
        dtype = position.dtype
        if dtype is None or not dtype.is_integer or block.reducer is None or not block.reducer.is_arg:
            return None
        flat: Expr = Const(0)
        for it in block.iters:
            if it.kind is IterKind.REDUCE:
                flat = Binary(BinOp.ADD, Binary(BinOp.MUL, flat, it.extent), Var(it.name))
        count = self._count_positions() or 1
        if count - 1 > integer_range(dtype)[1]:
            message = f"there are {count} positions, more than {dtype} can hold"
            self._diagnostics.error(self._stage.at, message, f"declare `{position.name}` as i64")
            return None
        flat = simplify(flat)
        value = flat if dtype is INDEX else Cast(flat, dtype)
        some, terms = self._stage.value, block.store.value
        if isinstance(some, Reduce) and some.cond is not None and isinstance(terms, Select):
            # Like the value that a term has which is not there, this changes nothing that it is combined with.
            value = Select(terms.cond, value, no_position(dtype))
        return replace(block, index=Store(position.name, block.store.indices, value))

    def _check_nesting(self) -> None:
        value = self._stage.value
        inside = value.operand if isinstance(value, Reduce) else value
        nested = next((node for node in inside.walk() if isinstance(node, Reduce)), None)
        if nested is not None:
            message = f"`{nested.reducer.value}[...]` is a stage's whole right-hand side, not a part of it"
            self._diagnostics.error(nested.at, message, self._two_stages(nested))

    def _rounds_each_step(self, value: Reduce, dtype: DType) -> None:
        name = value.reducer.value
        operand = print_source(value.operand)
        axes = print_domain(value)
        message = f"`{name}` over {dtype} would round to {dtype} at every step"
        wide = DType.I32 if dtype.is_integer else dtype.compute
        hint = f"reduce in {wide}, `{name}[{axes}]({wide}({operand}))`, and round in a stage after it: `{dtype}(...)`"
        types = [name for name, given in self._types.items() if given is dtype]
        if types:
            hint += f"; or give another type for one of {listing(types)}, such as `{types[-1]}={wide}`"
        self._diagnostics.error(value.at, message, hint)

    def _two_stages(self, nested: Reduce) -> str:
        stage = self._stage
        name = f"{stage.buffer}_{nested.reducer.value}"
        while name in self._buffers:
            name += "_"
        used = {node.name for node in nested.walk() if isinstance(node, Name)} - {axis.name for axis in nested.axes}
        axes = tuple(axis for axis in self._axes if axis.name in used)
        first = Stage(None, name, tuple(Axis(axis.name) for axis in axes), nested)
        read = Read(name, tuple(Name(axis.name) for axis in axes))
        second = replace(stage, value=_replace_node(stage.value, nested, read))
        return f"write two stages:\n    {print_stage(first)}\n    {print_stage(second)}"

    # --- extents ---------------------------------------------------------------------------------------

    @cached_property
    def _bare_uses(self) -> tuple[BareUse, ...]:
        return tuple(bare_uses(self._stage.value))

    def _extent(self, axis: Axis, declared: BufferInfo | None) -> int | None:
        shapes = {name: info.shape for name, info in self._buffers.items()}
        evidences = evidence_from_uses(axis.name, self._bare_uses, shapes)
        written, unknown = self._written_extents(axis, declared)
        # A written extent takes precedence over those of reads; bounds are checked when the reads are built.
        counting = written or evidences.firm or evidences.guarded
        if not counting:
            if not (unknown or evidences.unknown):
                self._report_unknown_extent(axis)
            return None
        first = counting[0]
        for other in counting[1:]:
            if other.extent != first.extent:
                message = f"the index `{axis.name}` goes to {first.extent} in {first.source}"
                message += f" and to {other.extent} in {other.source}"
                self._diagnostics.error(other.at, message, self._agreement(axis, counting, is_written=bool(written)))
                self._disagreement = True
        return first.extent

    def _agreement(self, axis: Axis, found: tuple[Evidence, ...], *, is_written: bool) -> str:
        if is_written:
            return "these extents have to agree"
        least = f"{axis.name} < {min(evidence.extent for evidence in found)}"
        where = "on the left-hand side" if axis in self._spatial else "where the reduction names it"
        return f"these extents have to agree, or the range is written, `{least}` {where}, and every read stays inside"

    def _written_extents(self, axis: Axis, declared: BufferInfo | None) -> tuple[tuple[Evidence, ...], bool]:
        """The extents from the range and the declaration, and whether one of these is present but wrong."""
        out: list[Evidence] = []
        unknown = False
        if axis.extent is not None:
            extent = self._sizes.size(axis.extent)
            if extent is not None and extent < 1:
                self._diagnostics.error(axis.at, f"the range of `{axis.name}` is {extent}", "extents are at least 1")
                extent = None
            unknown = extent is None
            if extent is not None:
                text = f"`{axis.name} < {print_source(axis.extent)}`"
                out.append(Evidence(extent, text, axis.at))
        if declared is not None and axis in self._spatial:
            dim = self._spatial.index(axis)
            if declared.shape is None or dim >= len(declared.shape):
                unknown = True
            else:
                text = f"the declaration of `{declared.name}`"
                out.append(Evidence(declared.shape[dim], text, axis.at))
        return tuple(out), unknown

    def _report_unknown_extent(self, axis: Axis) -> None:
        stage = self._stage
        hint = f"write its range, `{axis.name} < 512`"
        if axis in self._spatial:
            hint += f", or declare the buffer before the stage, `{stage.buffer}: f32[...]`"
        message = f"nothing says how far the index `{axis.name}` goes: it is nowhere used alone as an index"
        self._diagnostics.error(axis.at, message, hint)

    def _info(self, declared: BufferInfo | None, extents: Mapping[str, int | None]) -> BufferInfo:
        stage = self._stage
        if declared is not None:
            if declared.shape is not None and len(declared.shape) != len(self._spatial):
                message = f"`{stage.buffer}` is declared with {len(declared.shape)} dimensions and"
                message += f" computed with {len(self._spatial)}"
                self._diagnostics.error(stage.at, message, f"the declaration is on line {declared.at.line}")
            return declared
        shape = tuple(n for axis in self._spatial if (n := extents[axis.name]) is not None)
        dtype = self._values.dtype(stage.value)
        if dtype is None and self._lacks_type():
            message = f"nothing says which element type `{stage.buffer}` has"
            hint = f"declare it before the stage, `{stage.buffer}: f32[...]`, or cast the value, `f32(...)`"
            self._diagnostics.error(stage.at, message, hint)
        settled = len(shape) == len(self._spatial) and not self._disagreement
        return BufferInfo(stage.buffer, dtype, shape if settled else None, stage.at)

    def _lacks_type(self) -> bool:
        """Whether the value consists of numbers and indices alone, rather than of something that is wrong itself."""
        value = self._stage.value
        axes = {axis.name for axis in (*self._spatial, *self._reduce)}
        operand = value.operand if isinstance(value, Reduce) else value
        return not any(
            isinstance(node, Read)
            or (isinstance(node, Name) and node.name not in self._sizes and node.name not in axes)
            for node in _type_parts(operand)
        )

    # --- the block -------------------------------------------------------------------------------------

    def _block(self, value: Expr, extents: Mapping[str, int], dtype: DType) -> Block:
        stage = self._stage
        iters = [IterVar(axis.name, Const(extents[axis.name]), IterKind.SPATIAL) for axis in self._spatial]
        iters += [IterVar(axis.name, Const(extents[axis.name]), IterKind.REDUCE) for axis in self._reduce]
        store = Store(stage.buffer, tuple(Var(axis.name) for axis in self._spatial), value)
        bindings = tuple(Var(iv.name) for iv in iters)
        if not isinstance(stage.value, Reduce):
            return Block(stage.block, tuple(iters), bindings, (), store)
        reducer = stage.value.reducer
        return Block(stage.block, tuple(iters), bindings, (), store, reducer, Const(neutral(reducer, dtype), dtype))


def neutral(reducer: Reducer, dtype: DType) -> int | float:
    """The value that a reduction starts from: it changes nothing."""
    match reducer:
        case Reducer.SUM | Reducer.PROD:
            value = 0 if reducer is Reducer.SUM else 1
            return float(value) if dtype.is_float else value
        case Reducer.MAX | Reducer.ARGMAX:
            return dtype.lowest if dtype.is_float else integer_range(dtype)[0]
        case Reducer.MIN | Reducer.ARGMIN:
            return dtype.highest if dtype.is_float else integer_range(dtype)[1]


def _terms(value: Reduce, dtype: DType) -> SourceExpr:
    """The terms of a reduction: what changes nothing, exactly, takes the place of those that are not there."""
    if value.cond is None or dtype.is_bool:
        return value.operand
    nothing = neutral(value.reducer, dtype)
    literal = FloatLit(nothing) if isinstance(nothing, float) else IntLit(nothing)
    return IfElse(value.operand, value.cond, literal, at=value.at)


def nest(block: Block, loops: set[str]) -> Stmt:
    """`block` inside one serial loop per iteration variable; `loops` are the loop names taken, and grows."""
    names = []
    for iv in block.iters:
        name = iv.name if iv.name not in loops else f"{iv.name}_{block.name}"
        while name in loops:
            name += "_"
        loops.add(name)
        names.append(name)
    stmt: Stmt = replace(block, bindings=tuple(Var(name) for name in names))
    for name, iv in zip(reversed(names), reversed(block.iters), strict=True):
        stmt = For(name, iv.extent, stmt)
    return stmt


def _replace_node(e: SourceExpr, old: SourceExpr, new: SourceExpr) -> SourceExpr:
    """`e` with the node `old` replaced."""
    if e is old:
        return new
    changed: dict[str, Any] = {}
    for f in fields(e):
        value = getattr(e, f.name)
        if isinstance(value, SourceExpr):
            changed[f.name] = _replace_node(value, old, new)
        elif isinstance(value, tuple):
            changed[f.name] = tuple(_replace_node(i, old, new) if isinstance(i, SourceExpr) else i for i in value)
    return replace(e, **changed)


def _type_parts(value: SourceExpr) -> Iterator[SourceNode]:
    """A value's parts, without the conditions of choices: these have no part in its element type."""
    yield value
    below = (value.then, value.otherwise) if isinstance(value, IfElse) else value.children()
    for child in below:
        if isinstance(child, SourceExpr):
            yield from _type_parts(child)
        else:
            yield child
