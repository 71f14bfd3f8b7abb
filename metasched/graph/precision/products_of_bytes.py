"""Products of quantised numbers as products of bytes.

A product of two of them is `s * t * (a - x) * (b - y)`. Summed over an index that scales and zero points do not vary
along, that is `s * t * (sum(a * b) - x * sum(b) - y * sum(a) + n * x * y)`: a sum of products of bytes, and sums of
bytes, of which those of weights are computed ahead of calls. Totals are exact (Jacob et al. 2018, arXiv 1712.05877,
section 2.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import map_reads, names_in, reads, substitute_names
from metasched.graph.fusion.stages import Stages, reduced_extents
from metasched.graph.precision.products import (
    ProductSum,
    cast,
    literal,
    moved_reads,
    moves,
    new_name,
    product_sums,
)
from metasched.graph.precision.quantised import BYTES, Quantised
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, Axis, IfElse, IntLit, Name, Operation, Read, SourceExpr, Stage
from metasched.support.data_classes import dataclass

TOTAL = DType.I32
# The largest product of an unsigned byte and a signed one; sums of them have to fit a total.
_LARGEST_PRODUCT = 255 * 128
_LARGEST_TOTAL = 2**31 - 1
# What makes an unsigned byte a signed one: no tensor instruction multiplies two unsigned ones.
_SIGN_OFFSET = 128


@dataclass(frozen=True)
class GraphValues:
    """The graph as its programs see it: which of its values are quantised, and what is known of a value.

    `unsigned` says of a value what `quantised` does, of unsigned bytes where that can be.
    """

    quantised: Callable[[str], Quantised | None]
    unsigned: Callable[[str], Quantised | None]
    type: Callable[[str], ValueType]
    is_constant: Callable[[str], bool]


@dataclass(frozen=True)
class BytesProgram:
    """Stages whose products are of bytes; `inputs` are the values that their inputs are, in order."""

    stages: Stages
    inputs: tuple[str, ...]


def with_products_of_bytes(stages: Stages, inputs: Mapping[str, str], values: GraphValues) -> BytesProgram | None:
    """A program with its products of quantised numbers as products of bytes; None where there are none."""
    made = _Rewriting(stages, inputs, values)
    changed = [made.rewrite(product) for product in product_sums(stages)]
    return made.program() if any(changed) else None


@dataclass(frozen=True)
class _Factor:
    """An element of bytes in a product, with its zero point and scale over the stage's index variables."""

    element: Read
    zero: SourceExpr | None = None
    scale: SourceExpr | None = None


class _Rewriting:
    """Stages on their way: inputs and stages are added, and what is not read any more is left out at the end."""

    def __init__(self, stages: Stages, inputs: Mapping[str, str], values: GraphValues) -> None:
        self._stages = stages
        self._inputs = dict(inputs)
        self._values = values
        self._before: list[Stage] = []  # what the stage that is rewritten needs

    def rewrite(self, product: ProductSum) -> bool:
        """Rewrite a sum of products, if it is one of quantised numbers. Returns whether it is."""
        kept = self._stages, dict(self._inputs)
        self._before = []
        first, second = self._factors(product)
        if first is None or second is None or not self._fits(product, first, second):
            self._stages, self._inputs = kept
            return False
        if self._dtype(first) is DType.U8 and self._dtype(second) is DType.U8:
            second = self._make_signed(second)
        new = list(self._new_stages(product, first, second))
        at, old = self._stages.stages.index(product.stage), self._stages.stages
        self._stages = replace(self._stages, stages=(*old[:at], *self._before, *new, *old[at + 1 :]))
        return True

    def program(self) -> BytesProgram:
        """What has come of it, without what nothing reads."""
        needed, kept = set(self._stages.outputs), list[Stage]()
        for stage in reversed(self._stages.stages):
            if needed.intersection(stage.targets):
                kept.append(stage)
                needed.update(read.buffer for read in reads(stage.value))
        inputs = tuple(name for name in self._stages.inputs if name in needed)
        stages = replace(self._stages, inputs=inputs, stages=tuple(reversed(kept)))
        return BytesProgram(stages, tuple(self._inputs[name] for name in inputs))

    def _dtype(self, factor: _Factor) -> DType:
        return self._stages.types[factor.element.buffer].dtype

    def _declare_buffer(self, like: str, type_: ValueType) -> str:
        name = new_name(self._stages, like)
        self._stages = replace(self._stages, types={**self._stages.types, name: type_})
        return name

    # --- factors

    def _factors(self, product: ProductSum) -> tuple[_Factor | None, _Factor | None]:
        """Both factors as bytes. What signed weights are multiplied by is unsigned: instructions multiply a signed byte
        by an unsigned one, and sums of weights, which that takes, are computed ahead."""
        reads = product.operands
        first, second = (self._factor(read, self._values.quantised) for read in reads)
        if first is not None and second is not None and {self._dtype(first), self._dtype(second)} == {DType.I8}:
            if self._is_weight(second) and not self._is_weight(first):
                first = self._factor(reads[0], self._values.unsigned) or first
            elif self._is_weight(first) and not self._is_weight(second):
                second = self._factor(reads[1], self._values.unsigned) or second
        return first, second

    def _is_weight(self, factor: _Factor) -> bool:
        value = self._inputs.get(factor.element.buffer)
        return value is not None and self._values.is_constant(value)

    def _factor(self, read: Read, quantised: Callable[[str], Quantised | None]) -> _Factor | None:
        """A factor as bytes; None where it is no quantised number."""
        stage = self._stages.by_buffer.get(read.buffer)
        if stage is not None:
            return self._moved_factor(read, stage, quantised)
        found = quantised(self._inputs[read.buffer])
        if found is None:
            return _Factor(read) if self._stages.types[read.buffer].dtype in BYTES else None
        own = self._input(f"{read.buffer}q", found.value)
        places = dict(zip(found.axes, read.indices, strict=True))
        zero, scale = (self._read_at(part, found, places) for part in (found.zero, found.scale))
        return _Factor(Read(own, read.indices), zero, scale)

    def _moved_factor(self, read: Read, stage: Stage, quantised: Callable[[str], Quantised | None]) -> _Factor | None:
        """A factor that a stage moves, such as one with a border: around it are zero points."""
        elements = list(moved_reads(stage.value))
        if not moves(stage.value) or len(elements) != 1 or elements[0].buffer not in self._stages.inputs:
            return None
        found = quantised(self._inputs[elements[0].buffer])
        if found is None and self._stages.types[elements[0].buffer].dtype in BYTES:
            return _Factor(read)
        if found is None or found.varies or any(number != 0 for number in _literals(stage.value)):
            return None
        factor = self._factor(elements[0], quantised)
        assert factor is not None
        type_ = replace(self._stages.types[stage.buffer], dtype=self._dtype(factor))
        own = self._declare_buffer(f"{stage.buffer}q", type_)
        fill = self._border(factor.zero, type_.dtype)
        self._before.append(Stage(None, own, stage.axes, _replace_ends(stage.value, factor.element, fill)))
        return replace(factor, element=Read(own, read.indices))

    def _border(self, zero: SourceExpr | None, dtype: DType) -> SourceExpr:
        """A zero point as the byte that it is."""
        match zero:
            case None:
                return IntLit(0)
            case Apply("i32", (Read(buffer) as element,)) if self._stages.types[buffer].dtype is dtype:
                return element
        number = literal(zero)
        return cast(zero, dtype) if number is None else IntLit(int(number))

    def _input(self, like: str, value: str) -> str:
        """The input that is a value of the graph: one that is there, or a new one."""
        known = next((name for name, given in self._inputs.items() if given == value), None)
        if known is not None:
            return known
        name = self._declare_buffer(like, self._values.type(value))
        consts = self._stages.consts | ({name} if self._values.is_constant(value) else set())
        self._stages = replace(self._stages, inputs=(*self._stages.inputs, name), consts=consts)
        self._inputs[name] = value
        return name

    def _read_at(self, part: SourceExpr | None, of: Quantised, places: Mapping[str, SourceExpr]) -> SourceExpr | None:
        """A zero point or scale at a place, read from inputs of this program."""
        if part is None:
            return None
        names = {name: self._input(f"{name}q", value) for name, value in of.given.items()}
        return substitute_names(map_reads(part, lambda read: replace(read, buffer=names[read.buffer])), places)

    def _make_signed(self, factor: _Factor) -> _Factor:
        """A factor of unsigned bytes as one of signed ones."""
        like = factor.element.buffer
        own = self._declare_buffer(f"{like}s", replace(self._stages.types[like], dtype=DType.I8))
        axes = tuple(Axis(f"i{n}") for n in range(self._stages.types[like].rank))
        element = cast(Read(like, tuple(Name(axis.name) for axis in axes)), TOTAL)
        shifted = cast(Operation(BinOp.SUB, element, IntLit(_SIGN_OFFSET)), DType.I8)
        self._before.append(Stage(None, own, axes, shifted))
        known = 0 if factor.zero is None else literal(factor.zero)
        if known is None:
            assert factor.zero is not None
            zero: SourceExpr | None = Operation(BinOp.SUB, factor.zero, IntLit(_SIGN_OFFSET))
        else:
            zero = IntLit(int(known) - _SIGN_OFFSET) if known != _SIGN_OFFSET else None
        return replace(factor, element=Read(own, factor.element.indices), zero=zero)

    def _fits(self, product: ProductSum, first: _Factor, second: _Factor) -> bool:
        """Whether totals are exact, and the same zero points and scales are for all that is added up."""
        summed = reduced_extents(product.stage)
        largest = _LARGEST_PRODUCT
        if self._stages.types[product.stage.buffer].dtype is not TOTAL:
            # What is computed in 32 bits overflows there, too, and to the same number.
            largest = max(largest, self._largest_number(first) * self._largest_number(second))
        if prod(summed.values()) * largest > _LARGEST_TOTAL:
            return False
        if product.reduction.cond is not None and first.zero is not None and second.zero is not None:
            return False  # How many terms there are depends on the condition.
        parts = [part for factor in (first, second) for part in (factor.zero, factor.scale) if part is not None]
        return not any(names_in(part) & summed.keys() for part in parts)

    def _largest_number(self, factor: _Factor) -> int:
        """How far a byte may be from its zero point, which is such a byte, too."""
        lowest, highest = (0, 255) if self._dtype(factor) is DType.U8 else (-128, 127)
        zero = 0 if factor.zero is None else literal(factor.zero)
        return highest - lowest if zero is None else max(highest - int(zero), int(zero) - lowest)

    # --- stages

    def _new_stages(self, product: ProductSum, first: _Factor, second: _Factor) -> Iterator[Stage]:
        """The sum of products of bytes, sums of bytes for the zero points, and what the old stage computed of them."""
        stage = product.stage
        made = self._stages.types[stage.buffer]
        total = self._declare_buffer(f"{stage.buffer}q", replace(made, dtype=TOTAL))
        multiplied = Operation(BinOp.MUL, cast(first.element, TOTAL), cast(second.element, TOTAL))
        yield replace(stage, buffer=total, value=replace(product.reduction, operand=multiplied))
        value: SourceExpr = Read(total, tuple(Name(axis.name) for axis in stage.axes))
        for own, other in ((first, second), (second, first)):
            if own.zero is not None:
                ahead = self._is_known_ahead(other, own.zero)
                *parts, sums = self._sums(product, other, own.zero if ahead else None)
                yield from (*parts, sums)
                summed: SourceExpr = Read(sums.buffer, tuple(Name(axis.name) for axis in sums.axes))
                value = Operation(BinOp.SUB, value, summed if ahead else Operation(BinOp.MUL, own.zero, summed))
        if first.zero is not None and second.zero is not None:
            zeros = Operation(BinOp.MUL, first.zero, second.zero)
            value = Operation(
                BinOp.ADD, value, Operation(BinOp.MUL, IntLit(prod(reduced_extents(stage).values())), zeros)
            )
        value = value if made.dtype is TOTAL else cast(value, made.dtype)
        scales = [factor.scale for factor in (first, second) if factor.scale is not None]
        if scales:
            scale = scales[0] if len(scales) == 1 else Operation(BinOp.MUL, *scales)
            value = Operation(BinOp.MUL, value, scale)
        yield Stage(None, stage.buffer, stage.axes, value)

    def _is_known_ahead(self, factor: _Factor, zero: SourceExpr) -> bool:
        """Whether a zero point, one number, and what it is multiplied by are known before calls."""
        known = all(self._values.is_constant(self._inputs[read.buffer]) for read in reads(zero))
        return known and not names_in(zero) and self._is_weight(factor)

    def _sums(self, product: ProductSum, factor: _Factor, times: SourceExpr | None) -> Iterator[Stage]:
        """Sums of a factor's bytes over what the products are summed over, times a number if there is one.

        What windows share is summed once: the channels of each place ahead of the places of each window.
        """
        extents, element = self._stages.extents(product.stage), factor.element
        byte: SourceExpr = cast(element, TOTAL)
        axes, shared = product.reduction.axes, self._shared_axes(product, factor)
        if shared and len(shared) < len(axes):
            partial = self._channel_sums(product, factor, shared)
            yield partial
            names = {axis.name for axis in shared}
            byte = Read(partial.buffer, tuple(index for index in element.indices if not names_in(index) & names))
            axes = tuple(axis for axis in axes if axis.name not in names)
        used = frozenset[str]().union(*(names_in(index) for index in element.indices))
        kept = tuple(axis for axis in product.stage.axes if axis.name in used)
        type_ = ValueType(TOTAL, tuple(extents[axis.name] for axis in kept))
        operand = byte if times is None else Operation(BinOp.MUL, byte, times)
        total = replace(product.reduction, axes=axes, operand=operand)
        yield Stage(None, self._declare_buffer(f"{element.buffer}t", type_), kept, total)

    def _shared_axes(self, product: ProductSum, factor: _Factor) -> tuple[Axis, ...]:
        """The summed indices that are a subscript each, where others are parts of one: windows have those in common."""
        if product.reduction.cond is not None:
            return ()
        indices = factor.element.indices
        alone = {index.name for index in indices if isinstance(index, Name)}
        within = frozenset[str]().union(*(names_in(index) for index in indices if not isinstance(index, Name)))
        summed = [axis for axis in product.reduction.axes if axis.name in alone - within]
        others = {axis.name for axis in product.reduction.axes} - {axis.name for axis in summed}
        return tuple(summed) if others <= within else ()

    def _channel_sums(self, product: ProductSum, factor: _Factor, summed: tuple[Axis, ...]) -> Stage:
        """Sums of a factor's bytes over whole dimensions of it, for each place in the others."""
        element = factor.element
        given = self._stages.types[element.buffer].shape
        names = {axis.name for axis in summed}
        over = [Axis(f"i{n}") for n in range(len(given))]
        gone = [bool(names_in(index) & names) for index in element.indices]
        indices = [
            index if out else Name(axis.name) for index, axis, out in zip(element.indices, over, gone, strict=True)
        ]
        kept = [n for n, out in enumerate(gone) if not out]
        type_ = ValueType(TOTAL, tuple(given[n] for n in kept))
        value = replace(product.reduction, axes=summed, operand=cast(Read(element.buffer, tuple(indices)), TOTAL))
        return Stage(None, self._declare_buffer(f"{element.buffer}c", type_), tuple(over[n] for n in kept), value)


def _literals(value: SourceExpr) -> Iterator[int | float | bool]:
    """The literals that a moved value is one of."""
    if isinstance(value, IfElse):
        yield from _literals(value.then)
        yield from _literals(value.otherwise)
    elif (number := literal(value)) is not None:
        yield number


def _replace_ends(value: SourceExpr, element: SourceExpr, fill: SourceExpr) -> SourceExpr:
    """A moved value with another element and another literal; conditions stay."""
    if isinstance(value, IfElse):
        then, otherwise = (_replace_ends(part, element, fill) for part in (value.then, value.otherwise))
        return replace(value, then=then, otherwise=otherwise)
    return element if isinstance(value, Read) else fill
