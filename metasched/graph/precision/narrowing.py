"""Programs whose buffers are of a narrower float, and which compute in f32 or f16 as before.

What a buffer of the narrow type holds is rounded where it is written, and read as what it was. Factors of sums of
products are made narrow whatever the program's arguments are: so tensor instructions take them, and add up in f32.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import ROUNDING_FUNCTIONS, names_in, reads, rewrite_expression
from metasched.graph.fusion.stages import Stages, reduced_extents
from metasched.graph.precision.products import (
    ProductSum,
    cast,
    literal,
    moved_reads,
    moves,
    new_name,
    product_sum,
    product_sums,
)
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp, Reducer
from metasched.ir.source import (
    Apply,
    Axis,
    FloatLit,
    IfElse,
    Name,
    Operation,
    Read,
    Reduce,
    SourceExpr,
    SourceNode,
    Stage,
)
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

WIDE_TYPES = frozenset({DType.F32, DType.F16})
# What products are added up in.
_SUM_TYPE = DType.F32
# Reductions that choose one of the elements.
_CHOOSING_REDUCERS = frozenset({Reducer.MAX, Reducer.MIN})
# Instructions add up two products at a time, or 32, of neighbours along one index: of three colours, a picture's, much
# of what they multiply would be padding, and what is read is made narrow, padded and put in order before that.
_FEWEST_TERMS = 4
# A row so long is worth a reciprocal.
_ROW_WITH_RECIPROCAL = 16


def _adds(stage: Stage) -> bool:
    return isinstance(stage.value, Reduce) and stage.value.reducer not in _CHOOSING_REDUCERS


@dataclass(frozen=True)
class FloatFlow:
    """Where the elements of f32 and f16 of a program go."""

    stages: Stages

    def is_wide(self, buffer: str) -> bool:
        """Whether a buffer is of f32 or f16."""
        return self.stages.types[buffer].dtype in WIDE_TYPES

    def adds_up_wide(self, product: ProductSum) -> bool:
        """Whether products are added up in f32."""
        return self.stages.types[product.stage.buffer].dtype is _SUM_TYPE

    @cached_property
    def products(self) -> frozenset[str]:
        """The buffers that sums of products are in."""
        return frozenset(product.stage.buffer for product in product_sums(self.stages))

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The wide buffers that are factors of sums of products that are added up in f32, and gain by narrow ones."""
        found: dict[str, None] = {}
        for product in product_sums(self.stages):
            if self.adds_up_wide(product) and self.gains(product):
                found.update((read.buffer, None) for read in product.operands if self.is_wide(read.buffer))
        return tuple(found)

    def gains(self, product: ProductSum) -> bool:
        """Whether a sum of products is faster with narrow factors: by instructions that multiply these, or as one is
        read from memory once. Else each use would make an element wide again, as those of a window in a depthwise
        convolution, which is faster where a border is of f32.
        """
        terms = self.stages.iterations(product.stage)
        once = any(terms <= math.prod(self.stages.types[read.buffer].shape) for read in product.operands)
        fills = max(reduced_extents(product.stage).values()) >= _FEWEST_TERMS
        return once or (product.of_matrices and fills)

    @cached_property
    def inputs_of_factors(self) -> frozenset[str]:
        """The wide inputs that are factors, or that are moved to where factors are read."""
        found: set[str] = set()
        waiting = list(self.factors)
        while waiting:
            name = waiting.pop()
            stage = self.stages.by_buffer.get(name)
            if stage is None:
                found.add(name)
            elif moves(stage.value):
                waiting += [read.buffer for read in moved_reads(stage.value) if self.is_wide(read.buffer)]
        return frozenset(found)

    @cached_property
    def joined_inputs(self) -> frozenset[str]:
        """The wide inputs that a program joins to one value and does nothing else with; none where it does anything."""
        if len(self.stages.stages) != 1 or not moves(self.stages.stages[0].value):
            return frozenset()
        found = {read.buffer for read in moved_reads(self.stages.stages[0].value) if self.is_wide(read.buffer)}
        return frozenset(found) if len(found) > 1 else frozenset()

    def outputs_of_products(self, given: Collection[str]) -> frozenset[str]:
        """The wide outputs that products lead to, where some inputs come from products; other sums do not lead on.

        What has been through a product of narrow factors has their precision only. A mean or a variance has more, and
        what is computed with it may need that.
        """
        found = set(given)
        for stage in self.stages.stages:
            leads = not _adds(stage) and any(read.buffer in found for read in reads(stage.value))
            if leads or stage.buffer in self.products:
                found.add(stage.buffer)
        return frozenset(name for name in self.stages.outputs if name in found and self.is_wide(name))

    @cached_property
    def inputs_of_sums(self) -> frozenset[str]:
        """The inputs that are added up elsewhere than in products, or that what is added up is computed from.

        A softmax's scores, masked by huge numbers, are among them, and what a layer norm takes the variance of.
        """
        reaching: set[str] = set()
        for stage in reversed(self.stages.stages):
            if stage.buffer not in self.products and (_adds(stage) or stage.buffer in reaching):
                reaching.update(read.buffer for read in reads(stage.value))
        return frozenset(name for name in self.stages.inputs if name in reaching)


def narrow_stages(stages: Stages, boundary: Collection[str], narrow: DType) -> Stages:
    """The program with some wide inputs and outputs of a narrow type, and all factors of its sums of products."""
    return _Narrowing(FloatFlow(stages), frozenset(boundary), narrow).stages()


class _Narrowing:
    """Stages on their way: `_narrow` are the buffers that become narrow, by the names that they have already."""

    def __init__(self, flow: FloatFlow, boundary: frozenset[str], narrow: DType) -> None:
        self._flow = flow
        self._old = flow.stages
        self._to = narrow
        self._narrow = boundary | {name for name in flow.factors if self._may_be_narrow(name)}
        self._types = {
            name: replace(type_, dtype=narrow) if name in self._narrow else type_
            for name, type_ in self._old.types.items()
        }
        copied = [name for name in flow.factors if name not in self._narrow]
        self._copies: Mapping[str, str] = {name: self._declare_buffer(f"{name}n", name, narrow) for name in copied}

    def _may_be_narrow(self, name: str) -> bool:
        """Whether a factor is a buffer in between that may be rounded: not a sum, which others may read."""
        stage = self._old.by_buffer.get(name)
        return stage is not None and name not in self._old.outputs and not isinstance(stage.value, Reduce)

    def _declare_buffer(self, name: str, like: str, dtype: DType) -> str:
        own = new_name(replace(self._old, types=self._types), name)
        self._types[own] = ValueType(dtype, self._old.types[like].shape)
        return own

    def stages(self) -> Stages:
        old, made = self._old, list[Stage]()
        made += [self._copy(name) for name in self._copies if name in old.inputs]
        for stage in old.stages:
            made += self._narrow_stage(stage)
            made += [self._copy(name) for name in stage.targets if name in self._copies]
        return replace(old, types=self._types, stages=tuple(made))

    def _copy(self, name: str) -> Stage:
        """The stage that rounds a factor that stays f32 for others."""
        axes = tuple(Axis(f"i{n}") for n in range(self._old.types[name].rank))
        element = Read(name, tuple(Name(axis.name) for axis in axes))
        return Stage(None, self._copies[name], axes, cast(element, self._to))

    def _narrow_stage(self, stage: Stage) -> Iterator[Stage]:
        value = self._read_copies(stage)
        if stage.buffer not in self._narrow:
            yield replace(stage, value=self._widen_reads(value))
        elif isinstance(value, Reduce):
            wide = self._declare_buffer(f"{stage.buffer}w", stage.buffer, self._old.types[stage.buffer].dtype)
            yield replace(stage, buffer=wide, value=self._widen_reads(value))
            element = Read(wide, tuple(Name(axis.name) for axis in stage.axes))
            yield Stage(None, stage.buffer, stage.axes, cast(element, self._to))
        elif moves(value) and all(read.buffer in self._narrow for read in moved_reads(value)):
            yield replace(stage, value=self._narrow_elements(value))
        else:
            exact = self._by_reciprocals(stage, self._without_rounding(self._widen_reads(value)))
            yield replace(stage, value=cast(exact, self._to))

    def _by_reciprocals(self, stage: Stage, value: SourceExpr) -> SourceExpr:
        """A value that divides by what a whole row has in common, such as a softmax's sum, by one reciprocal for it.

        A difference in the last place of f32 is far below what the result is rounded to.
        """
        *_, (row, extent) = ((None, 0), *self._old.extents(stage).items())
        if extent < _ROW_WITH_RECIPROCAL or any(
            isinstance(node, Apply) and node.func in ROUNDING_FUNCTIONS for node in value.walk()
        ):
            return value

        def change(node: SourceNode) -> SourceNode:
            match node:
                case Operation(BinOp.DIV, a, b) if literal(a) != 1 and row not in names_in(b) and any(reads(b)):
                    return Operation(BinOp.MUL, a, Operation(BinOp.DIV, FloatLit(1.0), b))
            return node

        return rewrite_expression(value, change)

    @staticmethod
    def _without_rounding(value: SourceExpr) -> SourceExpr:
        """What is rounded to f16, which is rounded to the narrow type after that."""
        match value:
            case Apply(func, (inner,)) if func == DType.F16.value:
                return inner
        return value

    def _narrow_elements(self, value: SourceExpr) -> SourceExpr:
        """An element of narrow buffers, by conditions, in the narrow type: numbers may be written in the wide one."""
        match value:
            case IfElse(then, condition, otherwise):
                return IfElse(
                    self._narrow_elements(then), self._widen_reads(condition), self._narrow_elements(otherwise)
                )
            case Apply():
                return cast(value, self._to)
        return value

    def _read_copies(self, stage: Stage) -> SourceExpr:
        """The value of a stage whose factors are read from where they are rounded."""
        product = product_sum(stage)
        if product is None or not self._flow.adds_up_wide(product) or not self._flow.gains(product):
            return stage.value
        factors = [
            cast(replace(read, buffer=self._copies[read.buffer]), _SUM_TYPE) if read.buffer in self._copies else factor
            for factor, read in zip(product.factors, product.operands, strict=True)
        ]
        return replace(product.reduction, operand=Operation(BinOp.MUL, *factors))

    def _widen_reads(self, value: SourceExpr) -> SourceExpr:
        """A value in which elements of the narrow type are read as what they were."""

        def change(node: SourceNode) -> SourceNode:
            match node:
                case Apply("f32", (Read(buffer) as read,)) if buffer in self._narrow:
                    return replace(node, args=(read.map(change),))
                case Read(buffer) if buffer in self._narrow:
                    return cast(node.map(change), self._old.types[buffer].dtype)
            return node.map(change)

        made = change(value)
        assert isinstance(made, SourceExpr)
        return made
