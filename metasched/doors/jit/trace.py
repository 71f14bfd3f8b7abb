"""The graph of a function while it is traced: operands, constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from metasched.doors.jit.errors import TraceError, users_line
from metasched.doors.node_calls import NodeCalls
from metasched.dtypes import DType
from metasched.graph.builder import GraphBuilder, GraphValue

_STACK = "put them together with np.stack or np.concatenate"


class TracedOperand:
    """What has a value in a trace; `TracedArray` is its one class."""

    __slots__ = ("trace", "value")

    def __init__(self, trace: ArrayTrace, value: GraphValue) -> None:
        self.trace = trace
        self.value = value


class ArrayTrace:
    """What a function has computed so far.

    Arrays that are no arguments are constants: they are copied when they first meet a traced one.
    """

    def __init__(self, function: str, names: Mapping[int, str]) -> None:
        """`names` are those of arrays that the function finds in its closure, by their ids."""
        self.function = function
        self.builder = GraphBuilder()
        self.nodes = NodeCalls(self.builder, lambda: str(users_line()))
        self._names = names
        self._constants: dict[int, tuple[Any, GraphValue]] = {}

    def value(self, operand: Any, dtype: DType | None = None) -> GraphValue:
        """The value of an operand, in a type if one is given. Raises TraceError and Unsupported."""
        found = self._found(operand, dtype)
        return found if dtype is None else self.nodes.cast(found, dtype)

    def _found(self, operand: Any, dtype: DType | None) -> GraphValue:
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
        if operand.trace is not self:
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
        """A copy: what is written into the array later changes nothing."""
        known = self._constants.get(id(array))
        if known is None:
            name = self._names.get(id(array), "constant")
            known = self._constants[id(array)] = (array, self.nodes.constant(name, np.array(array)))
        return known[1]
