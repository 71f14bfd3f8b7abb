"""Programs in which nothing counts that lies beyond the sizes of a call.

Terms of reductions beyond them are left out by a condition. Numbers that depend on sizes, such as the divisor of a mean
or the end of a border, are read from an input. What is computed beyond the sizes may be anything; it is never read
outside of a buffer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from metasched.dtypes import INDEX, DType
from metasched.graph.buckets.comparison import NumberPlace
from metasched.graph.buckets.extents import Factors, has_gaps, is_free
from metasched.graph.buckets.following import Following, StageFollowing
from metasched.graph.fusion.expressions import conjunction, dtype_of, is_cast, reads
from metasched.graph.fusion.kinds import is_anchor
from metasched.graph.fusion.stages import Stages
from metasched.ir.nodes import BinOp, Reducer
from metasched.ir.source import (
    Apply,
    Axis,
    BoolLit,
    FloatLit,
    IfElse,
    IntLit,
    Name,
    Operation,
    Read,
    Reduce,
    SourceExpr,
    Stage,
)
from metasched.support.data_classes import dataclass

# What programs call the inputs that hold a call's numbers.
WHOLE, REAL = "call_sizes", "call_numbers"
_LESS_OPERATORS = (BinOp.LT, BinOp.LE)


@dataclass
class CallNumbers:
    """Numbers that a call gives instead of those of the largest graph: whole ones and others, by what they are there
    and in each sample.

    Attributes:
        whole: where each is in the input of whole numbers.
        real: where each is in the input of the others.
        at_most: whole numbers that must not be larger than in the largest graph.

    """

    whole: dict[tuple[float, ...], int] = field(default_factory=dict)
    real: dict[tuple[float, ...], int] = field(default_factory=dict)
    at_most: set[tuple[float, ...]] = field(default_factory=set)

    def read_number(self, number: tuple[float, ...], is_whole: bool) -> Read:
        """The number as a part of a program."""
        known = self.whole if is_whole else self.real
        return Read(WHOLE if is_whole else REAL, (IntLit(known.setdefault(number, len(known))),))

    def conditions(self, index: SourceExpr, factors: Factors) -> Iterator[SourceExpr]:
        """The conditions that an index along a dimension is not beyond a call's sizes."""
        for n, extent in enumerate(factors):
            if not is_free(extent):
                continue
            if not has_gaps(factors):
                whole = tuple(math.prod(each[k] for each in factors) for k in range(len(extent)))
                yield Operation(BinOp.LT, index, self.read_number(whole, True))
                return
            inner = math.prod(each[0] for each in factors[n + 1 :])
            place = Operation(BinOp.FLOORDIV, index, IntLit(inner)) if inner > 1 else index
            place = Operation(BinOp.MOD, place, IntLit(extent[0])) if n else place
            yield Operation(BinOp.LT, place, self.read_number(extent, True))


def zero(dtype: DType) -> SourceExpr:
    """Zero in a program."""
    return BoolLit(False) if dtype.is_bool else FloatLit(0.0) if dtype.is_float else IntLit(0)


@dataclass
class MaskedStage:
    """A stage of a node, rewritten: `value()` is what it computes. Raises NotAlike for what cannot be.

    Attributes:
        length: the buffer that says how long caches are that grow; empty where there are none.
        zeros: buffers that have to be zero beyond a call's sizes, so that sums of products stay as they are.

    """

    node: int
    number: int
    form: Stages
    following: Following
    numbers: CallNumbers
    length: str = ""
    zeros: set[str] = field(default_factory=set)
    _part: int = -1

    @property
    def _stage(self) -> Stage:
        return self.form.stages[self.number]

    @property
    def _own_stage(self) -> StageFollowing:
        return self.following.stages[self.node, self.number]

    def value(self) -> SourceExpr:
        """What the stage computes."""
        return self._visit(self._stage.value, self.form.types[self._stage.buffer].dtype)

    def _visit(self, node: SourceExpr, wanted: DType) -> SourceExpr:
        """A part, of a type where it is a number."""
        self._part += 1
        match node:
            case IntLit() | FloatLit():
                return self._literal(node, self._part, wanted)
            case Reduce():
                return self._reduction(node, wanted)
            case Read():
                return self._mask_read(node)
            case Operation(op=op) if op.is_comparison:
                return self._comparison(node)
            case IfElse(then=then, cond=cond, otherwise=otherwise):
                made = [self._visit(part, wanted) for part in (then, cond, otherwise)]
                return IfElse(*made)
        kind = dtype_of(node.args[0], self.form.dtypes) if isinstance(node, Apply) and is_cast(node) else None
        own = kind or dtype_of(node, self.form.dtypes) or wanted
        # Below an operation or a function there are expressions alone.
        return node.map(lambda child: self._visit(child, own) if isinstance(child, SourceExpr) else child)

    def _literal(self, node: IntLit | FloatLit, part: int, wanted: DType) -> SourceExpr:
        number = self.following.number(NumberPlace(self.node, self.number, part), node.value)
        if not is_free(number):
            return node
        read = self.numbers.read_number(number, isinstance(node, IntLit))
        return read if isinstance(node, IntLit) and wanted is INDEX else Apply(wanted.value, (read,))

    def _mask_read(self, node: Read) -> SourceExpr:
        made = [self._visit(index, INDEX) for index in node.indices]
        if made == [*node.indices]:
            return node
        shape = self.form.types[node.buffer].shape
        conditions: list[SourceExpr] = []
        for dim, (before, extent) in enumerate(zip(node.indices, shape, strict=True)):
            clamped = self._clamped_index(before, made[dim])
            if clamped is not None:
                made[dim] = clamped
            elif made[dim] != before:
                conditions.append(Operation(BinOp.GE, made[dim], IntLit(0)))
                conditions.append(Operation(BinOp.LT, made[dim], IntLit(extent)))
        changed = replace(node, indices=tuple(made))
        if not conditions:
            return changed
        return IfElse(changed, conjunction(conditions), zero(self.form.types[node.buffer].dtype))

    def _clamped_index(self, before: SourceExpr, made: SourceExpr) -> SourceExpr | None:
        """An index that is clamped to a number of the call (`made`), clamped to that of the largest graph, too, as it
        is there (`before`): so it stays inside, and no condition is asked for each element. None for any other index.
        """
        match before, made:
            case (
                Apply(func="clamp", args=(_, low, IntLit() as high)),
                Apply(func="clamp", args=(inner, IntLit() as least, most)),
            ) if low == least and most != high:
                self._require_at_most(most.args[0] if isinstance(most, Apply) else most)
                return Apply("clamp", (Apply("min", (inner, most)), low, high))
        return None

    def _require_at_most(self, number: SourceExpr) -> None:
        """Calls with a larger number than in the largest graph have networks of their own."""
        assert isinstance(number, Read), number
        (key,) = (n for n, at in self.numbers.whole.items() if number.indices == (IntLit(at),))
        self.numbers.at_most.add(key)

    def _comparison(self, node: Operation) -> SourceExpr:
        """A comparison with what the call's sizes say: where it is below a number, it is below that of the largest
        graph, too, so what it guards stays inside.
        """
        dtypes = self.form.dtypes
        kind = dtype_of(node.a, dtypes) or dtype_of(node.b, dtypes) or INDEX
        a, b = self._visit(node.a, kind), self._visit(node.b, kind)
        made = replace(node, a=a, b=b)
        if made == node:
            return node
        if node.op in _LESS_OPERATORS and a == node.a and isinstance(b, Read) and b.buffer == WHOLE:
            self._require_at_most(b)
            return Operation(BinOp.AND, node, made)
        return made

    def _reduction(self, node: Reduce, wanted: DType) -> SourceExpr:
        for axis in node.axes:
            self._part += sum(1 for _ in axis.walk())
        operand = self._visit(node.operand, dtype_of(node.operand, self.form.dtypes) or wanted)
        cond = None if node.cond is None else self._visit(node.cond, DType.BOOL)
        held = self._held_axes(node)
        free = [
            axis for axis in node.axes if axis.name not in held and any(map(is_free, self._own_stage.axes[axis.name]))
        ]
        made = replace(node, operand=operand, cond=cond)
        if not free:
            return made
        if cond is None and operand == node.operand and self._is_masked_by_zeros(node, free):
            self.zeros |= {read.buffer for read in reads(node.operand)}
            return made
        masks = [c for axis in free for c in self.numbers.conditions(Name(axis.name), self._own_stage.axes[axis.name])]
        given = [] if made.cond is None else [made.cond]
        return replace(made, cond=conjunction([*given, *masks]))

    def _held_axes(self, node: Reduce) -> set[str]:
        """The axes of a reduction that take the terms below the length of the caches and no others: none of these is
        beyond a call's sizes.
        """
        found, parts = set(), [node.cond]
        length = Read(self.length, ())
        while parts:
            match parts.pop():
                case Operation(op=BinOp.AND, a=a, b=b):
                    parts += [a, b]
                case Operation(op=BinOp.LT, a=Name(name=name), b=b) if length in (b, getattr(b, "a", None)):
                    found.add(name)
        return found

    def _is_masked_by_zeros(self, node: Reduce, free: Sequence[Axis]) -> bool:
        """Whether a sum of products is as it should be if all factors are zero beyond a call's sizes."""
        if node.reducer is not Reducer.SUM or not is_anchor(self.form, self._stage):
            return False
        names = {axis.name for axis in free}
        return all(
            isinstance(leaf, Read)
            and leaf.buffer in self.form.inputs
            and names <= {index.name for index in leaf.indices if isinstance(index, Name)}
            for leaf in _factors(node.operand)
        )


def _factors(e: SourceExpr) -> Iterator[SourceExpr]:
    """What a product is of, without conversions."""
    match e:
        case Operation(op=BinOp.MUL, a=a, b=b):
            yield from _factors(a)
            yield from _factors(b)
        case Apply(args=(inner,)) if is_cast(e):
            yield from _factors(inner)
        case _:
            yield e


def zeroing_stage(shape: Sequence[int], dimensions: Sequence[Factors], dtype: DType, numbers: CallNumbers) -> Stage:
    """A stage that copies `A` to `Y`, with zeros beyond a call's sizes."""
    axes = tuple(Axis(f"i{dim}") for dim in range(len(shape)))
    own = tuple(IntLit(0) if extent == 1 else Name(axis.name) for axis, extent in zip(axes, shape, strict=True))
    masks = [
        c for axis, factors in zip(axes, dimensions, strict=True) for c in numbers.conditions(Name(axis.name), factors)
    ]
    return Stage(None, "Y", axes, IfElse(Read("A", own), conjunction(masks), zero(dtype)))
