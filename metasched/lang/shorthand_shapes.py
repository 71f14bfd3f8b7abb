"""Infers extents and element types of stages without a head from the arrays of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from metasched.dtypes import INDEX, DType
from metasched.errors import KernelError
from metasched.ir.integers.linear import Linear, product
from metasched.ir.nodes import BinOp, UnOp, Var
from metasched.ir.source import (
    Apply,
    Argument,
    At,
    Axis,
    BufferDeclaration,
    IfElse,
    IntLit,
    Name,
    Operation,
    Prefix,
    ProgramDef,
    ProgramParameter,
    Read,
    Reduce,
    SourceExpr,
    SourceNode,
    Stage,
)
from metasched.ir.source_printer import print_source
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.elaboration.extents import bare_uses, stage_axes
from metasched.lang.elaboration.sizes import Sizes
from metasched.lang.elaboration.values import BufferInfo, ProgramScope, StageScope, Values
from metasched.support.data_classes import dataclass

NAME = "kernel"
FILE = "<kernel>"


@dataclass(frozen=True)
class TensorType:
    """The type of an array argument. `order` is its dimensions from the outermost to the innermost in memory, if that
    differs from their order.
    """

    dtype: DType
    shape: tuple[int, ...]
    order: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ScalarType:
    """The type of a number argument: its element type, or for a Python number the default unless its use determines
    one.
    """

    dtype: DType
    fixed: bool


ArgumentType = TensorType | ScalarType


def mentions(e: SourceNode) -> Iterator[SourceNode]:
    """The nodes of an expression in reading order, without the ranges of reductions."""
    yield e
    for child in e.children():
        if not isinstance(child, Axis):
            yield from mentions(child)


class ShapeInference:
    """Shapes and element types of one call's buffers, stage by stage."""

    def __init__(
        self, stages: tuple[Stage, ...], arguments: tuple[str, ...], types: Mapping[str, ArgumentType]
    ) -> None:
        self._stages = stages
        self._arguments = arguments
        self._types = types
        self._shapes: dict[str, tuple[int, ...]] = {n: t.shape for n, t in types.items() if isinstance(t, TensorType)}
        self._dtypes: dict[str, DType] = {n: t.dtype for n, t in types.items() if isinstance(t, TensorType)}
        # Scalars are not stored, so they have compute types.
        self._scalars = {n: t.dtype.compute for n, t in types.items() if isinstance(t, ScalarType) and t.fixed}
        self._params: dict[tuple[str, int], str] = {}
        self._sizes: dict[str, list[str | int]] = {}

    def stage(self, stage: Stage) -> Stage:
        """The stage with the ranges that neither its text nor a bare use gives."""
        for node in stage.value.walk():
            if isinstance(node, Read):
                self._check_rank(node)
        extents = self._infer_bare_extents(stage)
        written = dict(extents)
        self._infer_affine_extents(stage, extents)
        spatial, reduction = stage_axes(stage)
        for axis in (*spatial, *reduction):
            if axis.name not in extents:
                raise KernelError(
                    f"nothing says how far the index `{axis.name}` of `{stage.buffer}` goes",
                    hint=f"write its range, such as `{axis.name} < 512`",
                )
        for buffer in stage.targets:
            self._shapes[buffer] = tuple(extents[axis.name] for axis in spatial)
            self._sizes[buffer] = [self._size(axis.name, extents[axis.name]) for axis in spatial]
            self._dtypes[buffer] = INDEX  # of positions
        self._dtypes[stage.buffer] = self._dtype(stage)
        inferred = {name: n for name, n in extents.items() if name not in written}
        return _write_ranges(stage, inferred)

    def _check_rank(self, read: Read) -> None:
        shape = self._shapes.get(read.buffer)
        if shape is not None and len(shape) != len(read.indices):
            given = (
                f"the array has {len(shape)} (shape {shape})" if read.buffer in self._types else f"it has {len(shape)}"
            )
            count = len(read.indices)
            raise KernelError(
                f"`{read.buffer}` is read as `{print_source(read)}`, with {count} "
                f"{'index' if count == 1 else 'indices'}, and {given}"
            )

    def _infer_bare_extents(self, stage: Stage) -> dict[str, int]:
        """Extents from written ranges, or else from bare uses; raises if two of these differ."""
        axes = [axis for group in stage_axes(stage) for axis in group]
        written = {axis.name: axis.extent.value for axis in axes if isinstance(axis.extent, IntLit)}
        found: dict[str, tuple[int, str]] = {}
        uses = sorted(bare_uses(stage.value), key=lambda use: use.guarded)  # a guarded one counts where it is alone
        for use in uses:
            shape = self._shapes.get(use.buffer)
            if shape is None or use.axis in written:
                continue
            extent, where = shape[use.dim], f"{use.buffer} (dimension {use.dim} of {shape})"
            known = found.setdefault(use.axis, (extent, where))
            if known[0] != extent and not use.guarded:
                raise KernelError(
                    f"`{use.axis}` is {known[0]} in {known[1]} and {extent} in {where}",
                    hint="where an index runs over a part of a dimension, write its range, "
                    f"`{use.axis} < {min(known[0], extent)}`",
                )
        return written | {name: extent for name, (extent, _) in found.items()}

    def _infer_affine_extents(self, stage: Stage, extents: dict[str, int]) -> None:
        """Extents of indices that occur only in sums, such as `i` in `X[2*i + r]`: the largest that stay in bounds."""
        open_axes = [axis.name for group in stage_axes(stage) for axis in group if axis.name not in extents]
        for axis in open_axes:
            limits: list[tuple[int, str]] = []
            for read in _unguarded_reads(stage.value):
                shape = self._shapes.get(read.buffer)
                for dim, index in enumerate(read.indices if shape is not None else ()):
                    assert shape is not None
                    limit = _limit(_linear(index), axis, extents, shape[dim])
                    if limit is not None:
                        limits.append((limit, f"`{print_source(read)}` with {read.buffer} of shape {shape}"))
            if limits:
                least, where = min(limits)
                if least < 1:
                    raise KernelError(f"`{axis}` has no value that stays inside {where}")
                extents[axis] = least

    def _size(self, axis: str, extent: int) -> str | int:
        """A parameter for an extent, named after the index: `I` for `i`."""
        if (axis, extent) not in self._params:
            stages = self._stages
            taken = {*self._arguments, *self._params.values(), *(b for s in stages for b in s.targets)}
            taken |= {a.name for s in stages for group in stage_axes(s) for a in group}
            name = axis.upper()
            while name in taken or name == axis:
                name += "_"
            self._params[axis, extent] = name
        return self._params[axis, extent]

    def _dtype(self, stage: Stage) -> DType:
        values = self._values(stage, self._scalars)
        for name in _scalar_names(stage, self._types):
            if name not in self._scalars:
                required = _required_type(stage.value, name, None, values.dtype) or self._types[name].dtype
                self._scalars[name] = required.compute
        dtype = self._values(stage, self._scalars).dtype(stage.value)
        if dtype is None:
            raise KernelError(
                f"nothing says which element type `{stage.buffer}` has", hint="cast the value, such as `f32(...)`"
            )
        return dtype

    def _values(self, stage: Stage, scalars: Mapping[str, DType]) -> Values:
        buffers = {n: BufferInfo(n, self._dtypes[n], s, stage.at) for n, s in self._shapes.items() if n in self._dtypes}
        diagnostics = Diagnostics("", FILE)
        scope = ProgramScope(sizes=Sizes(diagnostics), types={}, scalars=scalars, buffers=buffers, later={})
        axes = frozenset(axis.name for group in stage_axes(stage) for axis in group)
        return Values(StageScope(scope, stage.buffer, axes), diagnostics)

    # --- the whole

    def definition(self, stages: tuple[Stage, ...]) -> ProgramDef:
        """The program that the stages and the arguments make."""
        shapes: dict[str, list[str | int]] = {}
        for stage in self._stages:
            for use in bare_uses(stage.value):
                shape = self._shapes.get(use.buffer)
                if isinstance(self._types.get(use.buffer), TensorType) and shape is not None:
                    sizes = shapes.setdefault(use.buffer, list(shape))
                    if isinstance(sizes[use.dim], int) and not use.guarded:
                        sizes[use.dim] = self._size(use.axis, shape[use.dim])
        arguments = []
        places = self._places()
        for name in self._arguments:
            given, at = self._types[name], places[name]
            if isinstance(given, TensorType):
                shape_of = tuple(_size_expr(s) for s in shapes.get(name, list(given.shape)))
                arguments.append(Argument(name, given.dtype, shape_of, at=at))
            else:
                arguments.append(Argument(name, self._scalars.get(name, given.dtype), None, at=at))
        last = self._stages[-1]
        outputs = tuple(
            BufferDeclaration(
                name, self._dtypes[name], tuple(_size_expr(size) for size in self._sizes[name]), at=last.at
            )
            for name in last.targets
        )
        used = {e.name for a in arguments for e in a.shape or () if isinstance(e, Name)}
        used |= {e.name for output in outputs for e in output.shape if isinstance(e, Name)}
        params = tuple(ProgramParameter(name, extent) for (_, extent), name in self._params.items() if name in used)
        return ProgramDef(NAME, params, tuple(arguments), outputs, (), (), stages)

    def _places(self) -> dict[str, At]:
        """The first place of each name in the stages."""
        places: dict[str, At] = {}
        for stage in self._stages:
            for node in mentions(stage.value):
                if isinstance(node, Read | Name):
                    places.setdefault(node.buffer if isinstance(node, Read) else node.name, node.at)
        return places


def _size_expr(size: str | int) -> SourceExpr:
    return Name(size) if isinstance(size, str) else IntLit(size)


def _write_ranges(stage: Stage, extents: Mapping[str, int]) -> Stage:
    """A stage with ranges written at the indices of `extents`."""

    def axes(group: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(replace(a, extent=IntLit(extents[a.name])) if a.name in extents else a for a in group)

    value = stage.value
    if isinstance(value, Reduce):
        value = replace(value, axes=axes(value.axes))
    return replace(stage, axes=axes(stage.axes), value=value)


def _unguarded_reads(e: SourceNode) -> Iterator[Read]:
    """The reads of an expression that no condition guards."""
    if isinstance(e, IfElse) or (isinstance(e, Reduce) and e.cond is not None):
        assert e.cond is not None
        yield from _unguarded_reads(e.cond)
        return
    if isinstance(e, Read):
        yield e
    for child in e.children():
        yield from _unguarded_reads(child)


def _linear(e: SourceExpr) -> Linear | None:
    """An index as a linear form over its names; None when it is not linear."""
    match e:
        case IntLit(value=value):
            return Linear(value)
        case Name(name=name):
            return Linear.of_atom(Var(name))
        case Prefix(op=UnOp.NEG, a=a):
            inner = _linear(a)
            return None if inner is None else inner.times(-1)
        case Operation(op=op, a=a, b=b):
            left, right = _linear(a), _linear(b)
            if left is None or right is None:
                return None
            if op is BinOp.MUL:
                return product(left, right)
            if op in (BinOp.ADD, BinOp.SUB):
                return left.plus(right, 1 if op is BinOp.ADD else -1)
    return None


def _limit(index: Linear | None, axis: str, extents: Mapping[str, int], size: int) -> int | None:
    """How many values an axis may take while the index stays in bounds; None if that is not known."""
    step = 0 if index is None else index.coefficient(Var(axis))
    if index is None or step <= 0:
        return None
    others = {atom.name: n for atom, n in index.terms if isinstance(atom, Var) and atom.name != axis}
    if not others.keys() <= extents.keys():
        return None
    most = index.const + sum(max(n, 0) * (extents[name] - 1) for name, n in others.items())
    return (size - 1 - most) // step + 1


def _scalar_names(stage: Stage, types: Mapping[str, ArgumentType]) -> list[str]:
    names = [node.name for node in mentions(stage.value) if isinstance(node, Name)]
    return [name for name in dict.fromkeys(names) if isinstance(types.get(name), ScalarType)]


def _required_type(
    e: SourceNode, name: str, context: DType | None, dtype: Callable[[SourceExpr], DType | None]
) -> DType | None:
    """The element type that the context of `name` requires of a number, as for a literal."""
    if isinstance(e, Name):
        return context if e.name == name else None
    if isinstance(e, Read):
        context = INDEX
    elif isinstance(e, Apply) and e.func in _CASTS:
        context = None
    elif isinstance(e, Operation | Apply | IfElse | Reduce):
        operands = [getattr(e, f.name) for f in fields(e)]
        flat = [x for item in operands for x in (item if isinstance(item, tuple) else (item,))]
        known: list[Any] = [dtype(x) for x in flat if isinstance(x, SourceExpr) and x is not getattr(e, "cond", None)]
        compares = isinstance(e, Operation) and e.op.is_comparison
        context = next((d for d in known if d is not None), None if compares else context)
    for child in e.children():
        inside = None if child is getattr(e, "cond", None) else context
        found = _required_type(child, name, inside, dtype)
        if found is not None:
            return found
    return None


_CASTS = frozenset(d.value for d in DType)
