"""An operator of a graph as the functions of `ops/` see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from metasched.doors.exact_division import EXACT_DIVISIONS, divide_exactly
from metasched.doors.jit.elementwise import FORMS
from metasched.doors.jit.scipy_ufuncs import SPECIAL_FORMS
from metasched.doors.node_calls import NodeCalls
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.text import real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

F = TypeVar("F", bound=Callable[..., Any])
# Floats of 8 bits that PyTorch makes otherwise than the language: what is beyond the largest becomes that, and scales
# are made of magnitudes, the smallest of zero.
_BYTES = {
    DType.F8E4M3FN: "min(max({0}, -448.0), 448.0)",
    DType.F8E8M0: f"max(abs({{0}}), {real(2.0**-127)})",
}
_SCALARS = 1 << 64  # PyTorch's whole numbers have 64 bits


def wrap_number(number: Any, dtype: DType) -> Any:
    """A number of Python as a type has it: a whole one that is beyond it wraps, as PyTorch's do."""
    if not isinstance(number, int) or not dtype.is_integer:
        return number
    return np.array(number % _SCALARS, np.uint64).astype(dtype.numpy).item()


def along_rows(lower: F) -> F:
    """Make a function of an operator along a dimension take what has no dimension as a row of one, as PyTorch does."""

    @wraps(lower)
    def run(site: AtenSite, x: GraphValue, *args: Any, **named: Any) -> Any:
        made = lower(site, site.row(x), *args, **named)
        if x.rank:
            return made
        if not isinstance(made, tuple):
            return site.nodes.view(made, site.shape)
        pairs = zip(made, site.types, strict=True)
        return tuple(part if part is None else site.nodes.view(part, type_.shape) for part, type_ in pairs)

    return cast(F, run)


@dataclass(frozen=True)
class NestedGraph:
    """A graph that an operator runs, any number of times.

    Attributes:
        run: adds its nodes to the graph that is made, for given inputs and under a name for this time; gives its
            outputs. Inputs that are numbers are sizes. Raises Unsupported where an output cannot be expressed.

    """

    run: Callable[[Sequence[GraphValue | int], str], list[GraphValue]]


@dataclass(frozen=True)
class AtenSite:
    """An operator whose inputs are known.

    Attributes:
        name: it, such as "aten.add.Tensor".
        nodes: what makes nodes of the graph.
        types: the types of its outputs, as PyTorch has them.
        promoted: the type in which PyTorch takes its operands together.
        used: the numbers of the outputs that something reads.
        first: its first input as PyTorch has it, without elements: how it lies in memory.

    """

    name: str
    nodes: NodeCalls
    types: tuple[ValueType, ...]
    promoted: DType
    used: frozenset[int]
    first: Any = None

    @property
    def result(self) -> DType:
        """The element type of its first output."""
        return self.types[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its first output."""
        return self.types[0].shape

    def require_unused(self, *numbers: int) -> None:
        """Raise Unsupported where something reads one of these outputs."""
        if self.used & set(numbers):
            raise Unsupported(f"its outputs {sorted(self.used & set(numbers))} are used, and have no form here")

    def value(self, operand: Any, dtype: DType | None = None) -> GraphValue:
        """An operand, a value or a Python number, in a type. Whole numbers that are beyond it wrap."""
        if isinstance(operand, GraphValue):
            return operand if dtype is None else self._convert(operand, dtype)
        wanted = dtype or self.result
        return self.nodes.constant("constant", np.asarray(wrap_number(operand, wanted), wanted.numpy))

    def row(self, operand: GraphValue) -> GraphValue:
        """An operand with a dimension: one without is a row of one element, as PyTorch takes it."""
        return operand if operand.rank else self.nodes.view(operand, (1,))

    def _convert(self, operand: GraphValue, dtype: DType) -> GraphValue:
        """A value in another type. Floats become integers as they do in C: those of fewer bits wrap."""
        given = operand.type.dtype
        if dtype in _BYTES and dtype is not given:
            return self.nodes.expression("Cast", f"{dtype}({_BYTES[dtype]})", [operand], [DType.F32], dtype)
        if not given.is_float or not dtype.is_integer or dtype in (DType.I32, DType.I64):
            return self.nodes.cast(operand, dtype)
        if dtype is DType.U64:
            text = f"({dtype}({DType.I64}({{0}})) if {{0}} < 0 else {dtype}({{0}}))"
            return self.nodes.expression("Cast", text, [operand], [given], dtype)
        whole = DType.I64 if dtype is DType.U32 else DType.I32
        return self.nodes.expression("Cast", f"{dtype}({{0}})", [operand], [whole], dtype)

    def expression(
        self,
        text: str,
        *operands: Any,
        computed: DType | None = None,
        result: DType | None = None,
        divides: bool = False,
    ) -> GraphValue:
        """An expression of operands, by default in the type of the result."""
        own = computed or self.result
        values = [x if isinstance(x, GraphValue) else self.value(x, own) for x in operands]
        op = self.name.split(".")[1].strip("_").title().replace("_", "")
        return self.nodes.expression(op, text, values, [own] * len(values), result or self.result, divides=divides)

    def accumulate(self, text: str, *operands: Any, result: DType | None = None, divides: bool = False) -> GraphValue:
        """An expression in the type that sums of the result's are taken in, rounded at the end: of halves, in f32."""
        wide, rounded = self.result.compute, result or self.result
        text = text if wide is rounded else f"{rounded}({text})"
        return self.expression(text, *operands, computed=wide, result=rounded, divides=divides)

    def form(self, name: str, *operands: Any, computed: DType | None = None) -> GraphValue:
        """What a ufunc of NumPy's or SciPy's computes, if the language has a form of it. Raises Unsupported."""
        own = computed or self.result
        form = FORMS.get(name) or SPECIAL_FORMS[name]
        text = form.text(own)
        if not text:
            raise Unsupported(f"{name} of {own} has no form in the language")
        if name in EXACT_DIVISIONS and own is DType.F64:
            return divide_exactly(self.nodes, name, *(self.value(x, own) for x in operands))
        if form.wide and own.is_float:
            return self.expression(f"{self.result}({text})", *operands, computed=DType.F64, divides=form.divides)
        return self.expression(text, *operands, computed=own, divides=form.divides)

    def call(self, op: str, *inputs: GraphValue | None, **attributes: Any) -> GraphValue:
        """The first output of a node type of networks."""
        return self.nodes.call(op, *inputs, **attributes)

    def integers(self, values: Sequence[int]) -> GraphValue:
        """Numbers that decide shapes, as an input of a node type."""
        return self.nodes.integers("sizes", values)

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the beginning."""
        return int(axis) % rank if rank else 0
