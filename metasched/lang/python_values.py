"""The parts of programs built in Python: values with Python's operators, and tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from metasched.dtypes import DType
from metasched.errors import Diagnostic, LanguageError
from metasched.ir.nodes import BinOp, UnOp
from metasched.ir.source import BoolLit, FloatLit, IntLit, Name, Operation, Prefix, Read, SourceExpr, Stage, negate
from metasched.ir.source_printer import print_source
from metasched.lang.numpy_names import hint_in_python
from metasched.support.messages import with_hint

FILE = "<python>"


class Value:
    """An expression of the language. Python's operators build larger ones; of conditions `& | ~` are `and`, `or` and
    `not`, and of integers they are of bits."""

    __slots__ = ("node", "symbols")

    def __init__(self, node: SourceExpr, symbols: tuple[Symbol, ...] = ()) -> None:
        self.node = node
        self.symbols = symbols

    def __repr__(self) -> str:
        return print_source(self.node)

    def __bool__(self) -> bool:
        raise TypeError(
            with_hint(
                f"the truth of `{self!r}` is not known while the program is being built",
                "write where(cond, a, b) instead of `if`, & | ~ instead of `and or not`, and do not chain comparisons",
            )
        )

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return _operation(BinOp.EQ, self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return _operation(BinOp.NE, self, other)

    def __lt__(self, other: ValueLike) -> Value:
        return _operation(BinOp.LT, self, other)

    def __le__(self, other: ValueLike) -> Value:
        return _operation(BinOp.LE, self, other)

    def __gt__(self, other: ValueLike) -> Value:
        return _operation(BinOp.GT, self, other)

    def __ge__(self, other: ValueLike) -> Value:
        return _operation(BinOp.GE, self, other)

    def __add__(self, other: ValueLike) -> Value:
        return _operation(BinOp.ADD, self, other)

    def __radd__(self, other: ValueLike) -> Value:
        return _operation(BinOp.ADD, other, self)

    def __sub__(self, other: ValueLike) -> Value:
        return _operation(BinOp.SUB, self, other)

    def __rsub__(self, other: ValueLike) -> Value:
        return _operation(BinOp.SUB, other, self)

    def __mul__(self, other: ValueLike) -> Value:
        return _operation(BinOp.MUL, self, other)

    def __rmul__(self, other: ValueLike) -> Value:
        return _operation(BinOp.MUL, other, self)

    def __truediv__(self, other: ValueLike) -> Value:
        return _operation(BinOp.DIV, self, other)

    def __rtruediv__(self, other: ValueLike) -> Value:
        return _operation(BinOp.DIV, other, self)

    def __floordiv__(self, other: ValueLike) -> Value:
        return _operation(BinOp.FLOORDIV, self, other)

    def __rfloordiv__(self, other: ValueLike) -> Value:
        return _operation(BinOp.FLOORDIV, other, self)

    def __mod__(self, other: ValueLike) -> Value:
        return _operation(BinOp.MOD, self, other)

    def __rmod__(self, other: ValueLike) -> Value:
        return _operation(BinOp.MOD, other, self)

    def __and__(self, other: ValueLike) -> Value:
        return _bit_operation(BinOp.BIT_AND, self, other)

    def __rand__(self, other: ValueLike) -> Value:
        return _bit_operation(BinOp.BIT_AND, other, self)

    def __or__(self, other: ValueLike) -> Value:
        return _bit_operation(BinOp.BIT_OR, self, other)

    def __ror__(self, other: ValueLike) -> Value:
        return _bit_operation(BinOp.BIT_OR, other, self)

    def __xor__(self, other: ValueLike) -> Value:
        return _bit_operation(BinOp.BIT_XOR, self, other)

    def __rxor__(self, other: ValueLike) -> Value:
        return _bit_operation(BinOp.BIT_XOR, other, self)

    def __lshift__(self, other: ValueLike) -> Value:
        return _operation(BinOp.SHIFT_LEFT, self, other)

    def __rlshift__(self, other: ValueLike) -> Value:
        return _operation(BinOp.SHIFT_LEFT, other, self)

    def __rshift__(self, other: ValueLike) -> Value:
        return _operation(BinOp.SHIFT_RIGHT, self, other)

    def __rrshift__(self, other: ValueLike) -> Value:
        return _operation(BinOp.SHIFT_RIGHT, other, self)

    def __invert__(self) -> Value:
        return Term(Prefix(UnOp.NOT if _is_truth(self.node) else UnOp.INVERT, self.node), self.symbols)

    def __neg__(self) -> Value:
        return Term(negate(self.node), self.symbols)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **settings: object) -> Any:
        """What NumPy calls for `np.float32(2) * value`, and for an array times a value, which is an array of values;
        and for `np.exp(value)`, which is an error with a hint.
        """
        op = _OPERATORS_OF_NUMPY.get(ufunc.__name__)
        if op is None or method != "__call__" or settings:
            message = f"np.{ufunc.__name__} takes numbers, and `{self!r}` is an expression of a program"
            raise TypeError(with_hint(message, hint_in_python(ufunc.__name__)))
        if not any(isinstance(one, np.ndarray) for one in inputs):
            return op(*map(lift, inputs))
        of_each = np.frompyfunc(lambda a, b: op(lift(a), lift(b)), 2, 1)
        return of_each(*(_in_array(one) if isinstance(one, Value) else one for one in inputs))


class Term(Value):
    """The result of an operator or a function.

    Not a base class of the named values: Python would turn `i >= N` into `N <= i` for an `N` of a subclass.
    """

    __slots__ = ()


class Parameter(Value):
    """A size with a default: `N=512`."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: int) -> None:
        super().__init__(Name(require_valid_name(name)), (self,))
        self.name = name
        self.default = default


class Size(Value):
    """A size computed from others: `let OH = ...`."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Value) -> None:
        super().__init__(Name(require_valid_name(name)), (self,))
        self.name = name
        self.value = value


class ScalarArgument(Value):
    """A scalar argument: `alpha: f32`."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: DType) -> None:
        super().__init__(Name(require_valid_name(name)), (self,))
        self.name = name
        self.dtype = dtype


class Tensor:
    """An input, or what a stage computes. `tensor[i, j]` reads an element."""

    def __init__(self, name: str, shape: tuple[Value, ...], dtype: DType | None, *, const: bool = False) -> None:
        self.name = require_valid_name(name)
        self.shape = shape
        self.dtype = dtype
        self.const = const

    def __getitem__(self, indices: ValueLike | tuple[ValueLike, ...]) -> Value:
        lifted = tuple(lift(i) for i in (indices if isinstance(indices, tuple) else (indices,)))
        return Term(Read(self.name, tuple(v.node for v in lifted)), merge((self,), *(v.symbols for v in lifted)))

    def __iter__(self) -> Iterable[Value]:
        raise TypeError(f"`{self.name}` cannot be iterated over: index it, {self.name}[i, j]")

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype or '?'}[{', '.join(map(repr, self.shape))}]"


class Computed(Tensor):
    """The tensor that a stage computes; `typed`: its dtype follows from what it reads."""

    def __init__(self, stage: Stage, shape: tuple[Value, ...], value: Value, dtype: DType | None, typed: bool) -> None:
        super().__init__(stage.buffer, shape, dtype)
        self.stage = stage
        self.value = value
        self.typed = typed


class Positions(Tensor):
    """The positions that an arg-reduction finds besides its values."""

    def __init__(self, name: str, values: Computed, dtype: DType) -> None:
        super().__init__(name, values.shape, dtype)
        self.values = values


Symbol: TypeAlias = Parameter | Size | ScalarArgument | Tensor
ValueLike: TypeAlias = Value | int | float


def program_error(message: str, hint: str = "") -> LanguageError:
    """An error in a program that has no text yet."""
    return LanguageError((Diagnostic(1, 1, message, hint),), "", FILE)


def lift(value: object) -> Value:
    """A number as a value, one of NumPy's too. Raises TypeError for anything that is not one."""
    if isinstance(value, Value):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return Term(BoolLit(value))
    if isinstance(value, float):
        return Term(FloatLit(float(value)))
    if isinstance(value, Tensor):
        raise TypeError(f"`{value.name}` is a tensor: index it, {value.name}[i, j]")
    if hasattr(value, "__index__"):
        return Term(IntLit(value.__index__()))
    raise TypeError(f"{value!r} is no expression of a program: numbers, parameters and indexed tensors are")


_OPERATORS_OF_NUMPY: Mapping[str, Callable[..., Value]] = MappingProxyType(
    {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "floor_divide": operator.floordiv,
        "remainder": operator.mod,
        "bitwise_and": operator.and_,
        "bitwise_or": operator.or_,
        "bitwise_xor": operator.xor,
        "left_shift": operator.lshift,
        "right_shift": operator.rshift,
        "less": operator.lt,
        "less_equal": operator.le,
        "greater": operator.gt,
        "greater_equal": operator.ge,
        "equal": operator.eq,
        "not_equal": operator.ne,
    }
)


def _in_array(value: Value) -> np.ndarray[Any, Any]:
    """A value as NumPy takes it for an object like others."""
    array = np.empty((), object)
    array[()] = value
    return array


def _operation(op: BinOp, a: object, b: object) -> Value:
    left, right = lift(a), lift(b)
    return Term(Operation(op, left.node, right.node), merge(left.symbols, right.symbols))


_TRUTH_OPERATORS = {BinOp.BIT_AND: BinOp.AND, BinOp.BIT_OR: BinOp.OR}


def _bit_operation(op: BinOp, a: object, b: object) -> Value:
    """`&` or `|`: of conditions these are `and` and `or`, as which they are printed."""
    left, right = lift(a), lift(b)
    is_of_truths = _is_truth(left.node) or _is_truth(right.node)
    return _operation(_TRUTH_OPERATORS.get(op, op) if is_of_truths else op, left, right)


def _is_truth(node: SourceExpr) -> bool:
    match node:
        case Operation(op=op):
            return op.is_comparison or op.is_logical
        case Prefix(op=op):
            return op is UnOp.NOT
    return isinstance(node, BoolLit)


def merge(*groups: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """Each symbol once, in order of first appearance."""
    seen: dict[int, Symbol] = {}
    for group in groups:
        for symbol in group:
            seen.setdefault(id(symbol), symbol)
    return tuple(seen.values())


def require_valid_name(name: str) -> str:
    """`name`, if it is valid in the language. Raises LanguageError otherwise."""
    if not (name.isascii() and name.isidentifier()):
        raise program_error(f"{name!r} is no name", "names are letters, digits and `_`, and do not begin with a digit")
    return name
