"""The graph of a function while it is traced: operands, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from metasched.doors.jit.errors import TraceError
from metasched.doors.node_calls import NodeCalls
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.support.data_classes import dataclass

Layout: TypeAlias = np.ndarray[Any, np.dtype[np.int8]]
_STACK = "put them together with np.stack or np.concatenate"


class ViewStep(Protocol):
    """How a view lies in the array that it is of."""

    def read_from(self, trace: ArrayTrace, whole: GraphValue) -> GraphValue:
        """The view's elements. Raises Unsupported."""

    def write_into(self, trace: ArrayTrace, whole: GraphValue, part: GraphValue) -> GraphValue:
        """The array's elements, once the view has others. Raises TraceError where it cannot be written."""

    def layout(self, whole: Layout) -> Layout:
        """The view of an array of NumPy's that lies in memory as this one would."""


class TracedOperand:
    """What has a value in a trace: elements of its own, or a view of another one's. `TracedArray` is its one class.

    What is written into a view is written into the array that it is of, and seen by other views at their next use.
    Names of its own are none of an array's: `trace` and `view` are methods of these.
    """

    __slots__ = ("_elements", "_seen", "own_trace", "view_of", "writable")

    def __init__(
        self,
        trace: ArrayTrace,
        elements: GraphValue | None,
        *,
        view: tuple[TracedOperand, ViewStep] | None = None,
        writable: bool = True,
    ) -> None:
        """`view`: the array that it is a view of, and how, in place of elements. Arguments are not `writable`."""
        self.own_trace = trace
        self.view_of = view
        self.writable = writable
        self._elements = elements
        self._seen: GraphValue | None = None

    @property
    def value(self) -> GraphValue:
        """The array's elements as they are now. Raises Unsupported where a view cannot be expressed."""
        if self.view_of is not None:
            whole, step = self.view_of
            elements = whole.value
            if self._seen is not elements:
                self._elements, self._seen = step.read_from(self.own_trace, elements), elements
        assert self._elements is not None
        return self._elements

    def write(self, value: GraphValue) -> None:
        """Give it other elements, of its type. Raises TraceError for an argument, or a view of one."""
        if self.view_of is not None:
            whole, step = self.view_of
            whole.write(step.write_into(self.own_trace, whole.value, value))
            self._seen = whole.value
        elif not self.writable:
            raise TraceError(
                "an argument is written, or a view of one: the caller's array would change",
                "make a copy first: y = x.copy(); or a new array: a = a + b",
            )
        self._elements = value

    def layout(self) -> Layout:
        """An array of NumPy's that lies in memory as this one would; its elements mean nothing."""
        if self.view_of is None:
            return np.empty(self.value.shape, np.int8)
        whole, step = self.view_of
        return step.layout(whole.layout())


@dataclass(frozen=True)
class _Constant:
    """An array that met a traced one, kept so that its id stays its own; its elements then, and the value of these."""

    array: np.ndarray[Any, Any]
    copy: np.ndarray[Any, Any]
    value: GraphValue


class ArrayTrace:
    """What a function has computed so far.

    Arrays that are no arguments are constants: they are copied when they meet a traced one.
    """

    def __init__(
        self,
        function: str,
        names: Mapping[int, str],
        array: Callable[[ArrayTrace, GraphValue], TracedOperand],
        nodes: NodeCalls,
    ) -> None:
        """`names` are those of arrays in the function's closure, by their ids; `array` makes traced ones; `nodes` adds
        to the graph.
        """
        self.function = function
        self._array = array
        self.builder = nodes.builder
        self.nodes = nodes
        self._names = names
        self._constants: dict[int, _Constant] = {}

    def array(self, value: GraphValue) -> Any:
        """A value as an array, for functions that are written in NumPy's names."""
        return self._array(self, value)

    def value(self, operand: Any, dtype: DType | None = None) -> GraphValue:
        """The value of an operand, in a type if one is given. Raises TraceError and Unsupported."""
        found = self._operand_value(operand, dtype)
        return found if dtype is None else self.nodes.cast(found, dtype)

    def _operand_value(self, operand: Any, dtype: DType | None) -> GraphValue:
        if isinstance(operand, TracedOperand):
            self.require_own(operand)
            return operand.value
        if isinstance(operand, np.ndarray):
            return self._constant(operand)
        if isinstance(operand, list | tuple) and any(isinstance(part, TracedOperand) for part in operand):
            raise TraceError("a list of traced arrays stands where an array is needed", _STACK)
        if type(operand) in (bool, int, float) and dtype is not None:
            return self._number(operand, dtype)
        return self.nodes.constant("constant", np.array(operand))

    def require_own(self, operand: TracedOperand) -> None:
        """Raise TraceError for an array of another trace, kept by a function that has ended."""
        if operand.own_trace is not self:
            raise TraceError(
                "an array of an earlier trace is used: it was kept outside of the function",
                "return what later calls need, and give it as an argument",
            )

    def _number(self, operand: float, dtype: DType) -> GraphValue:
        try:
            return self.nodes.constant("constant", np.asarray(operand, dtype.numpy))
        except OverflowError as error:
            raise TraceError(f"{operand} does not fit in {dtype.numpy}: {error}") from error

    def _constant(self, array: np.ndarray[Any, Any]) -> GraphValue:
        """A copy, and another one once the function has written into the array."""
        known = self._constants.get(id(array))
        if known is None or not _has_same_bytes(known.copy, array):
            copy = np.array(array, order="C")
            value = self.nodes.constant(self._names.get(id(array), "constant"), copy)
            known = self._constants[id(array)] = _Constant(array, copy, value)
        return known.value


def _has_same_bytes(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether arrays have the same elements, of which one NaN is another and a zero has a sign."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    bytes_of_one, bytes_of_other = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (one, other))
    return np.array_equal(bytes_of_one, bytes_of_other)


def common_numpy_type(operands: Sequence[Any]) -> Any:
    """NumPy's type of operands together; Python's numbers are weak."""
    types = [operand.value.type.dtype.numpy if isinstance(operand, TracedOperand) else operand for operand in operands]
    return np.result_type(*(t if not isinstance(t, list | tuple) else np.asarray(t) for t in types))
