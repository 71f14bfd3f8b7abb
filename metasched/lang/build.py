"""Programs built in Python: the same tree as from text.

    N, M, K = param("N", 512), param("M", 512), param("K", 512)
    A, B = placeholder("A", (N, K)), placeholder("B", (K, M))
    C = compute("C", (N, M), lambda i, j: sum(lambda k: A[i, k] * B[k, j], K), label="dense")
    D = compute("D", (N, M), lambda i, j: max(C[i, j], 0))
    prog = program("dense_relu", [A, B], [D])

Iteration variables are named by the functions' arguments. The shape of a buffer in between and the range of a
reduction are written into the tree only where the text would need them: where no read shows the same extent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from metasched.dtypes import DType
from metasched.errors import Diagnostic, LanguageError
from metasched.ir.functions import FUNCTIONS
from metasched.ir.limits import SPLIT, too_large
from metasched.ir.nodes import BinOp, Reducer, UnOp
from metasched.ir.program import Program
from metasched.ir.source import (
    Apply,
    Axis,
    BoolLit,
    FloatLit,
    IfElse,
    IntLit,
    Name,
    Operation,
    Prefix,
    Read,
    Reduce,
    SourceExpr,
    Stage,
    negate,
)

__all__ = [
    "param", "let", "scalar", "placeholder", "compute", "program",
    "sum", "prod", "max", "min", "compute_arg", "argmax", "argmin", "where", "cast", "call",
    "abs", "ceil", "cos", "erf", "exp", "exp2", "expm1", "floor", "log", "log1p", "log2", "pow", "rsqrt", "sigmoid",
    "sin", "sqrt", "tanh",
    "Tensor", "Value",
]  # fmt: skip

_FILE = "<python>"


class Value:
    """An expression of the language. Python's operators build larger ones; `& | ~` are `and`, `or` and `not`."""

    __slots__ = ("node", "symbols")

    def __init__(self, node: SourceExpr, symbols: tuple[Symbol, ...] = ()) -> None:
        self.node = node
        self.symbols = symbols

    def __repr__(self) -> str:
        from metasched.ir.source_printer import print_source

        return print_source(self.node)

    def __bool__(self) -> bool:
        raise TypeError(
            f"the truth of `{self!r}` is not known while the program is being built; "
            "write where(cond, a, b) instead of `if`, & | ~ instead of `and or not`, and do not chain comparisons"
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
        return _operation(BinOp.AND, self, other)

    def __or__(self, other: ValueLike) -> Value:
        return _operation(BinOp.OR, self, other)

    def __invert__(self) -> Value:
        return Term(Prefix(UnOp.NOT, self.node), self.symbols)

    def __neg__(self) -> Value:
        return Term(negate(self.node), self.symbols)


class Term(Value):
    """What operators and functions make.

    A class beside the named values, not above them: Python would turn `i >= N` into `N <= i` for an `N` of a subclass.
    """

    __slots__ = ()


class Parameter(Value):
    """A size with a default: `N=512`."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: int) -> None:
        super().__init__(Name(_word(name)), (self,))
        self.name = name
        self.default = default


class Size(Value):
    """A size computed from others: `let OH = ...`."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Value) -> None:
        super().__init__(Name(_word(name)), (self,))
        self.name = name
        self.value = value


class ScalarArgument(Value):
    """A scalar argument: `alpha: f32`."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: DType) -> None:
        super().__init__(Name(_word(name)), (self,))
        self.name = name
        self.dtype = dtype


class Tensor:
    """An input, or what a stage computes. `tensor[i, j]` reads an element."""

    def __init__(self, name: str, shape: tuple[Value, ...], dtype: DType | None, *, const: bool = False) -> None:
        self.name = _word(name)
        self.shape = shape
        self.dtype = dtype
        self.const = const

    def __getitem__(self, indices: ValueLike | tuple[ValueLike, ...]) -> Value:
        lifted = tuple(_lift(i) for i in (indices if isinstance(indices, tuple) else (indices,)))
        return Term(Read(self.name, tuple(v.node for v in lifted)), _merge((self,), *(v.symbols for v in lifted)))

    def __iter__(self) -> Iterable[Value]:
        raise TypeError(f"`{self.name}` cannot be iterated over: index it, {self.name}[i, j]")

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype or '?'}[{', '.join(map(repr, self.shape))}]"


class Computed(Tensor):
    """What a stage computes; `typed` says that its dtype follows from what it reads."""

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


# --- what programs are made of ---------------------------------------------------------------------------


def param(name: str, default: int) -> Parameter:
    """A parameter of the program: a size with a default."""
    return Parameter(name, default)


def let(name: str, value: ValueLike) -> Size:
    """A named size."""
    lifted = _lift(value)
    _require_small(lifted, name)
    return Size(name, lifted)


def scalar(name: str, dtype: str | DType = DType.F32) -> ScalarArgument:
    """A scalar argument."""
    return ScalarArgument(name, DType(dtype))


def placeholder(
    name: str, shape: Sequence[ValueLike], dtype: str | DType = DType.F32, *, const: bool = False
) -> Tensor:
    """An input tensor; `const` marks weights."""
    return Tensor(name, _extents(name, shape), DType(dtype), const=const)


def compute(
    name: str,
    shape: Sequence[ValueLike],
    value: Callable[..., ValueLike],
    *,
    label: str | None = None,
    dtype: str | DType | None = None,
) -> Tensor:
    """A stage: the tensor whose element at `i, j, ...` is `value(i, j, ...)`.

    The iteration variables are named by the arguments of `value`. `dtype` is needed where the value is made of
    numbers alone.

    Raises:
        LanguageError: when `value` does not take one argument for each dimension.
    """
    from metasched.lang.assemble import infer_dtype

    names = _arguments(value, f"compute({name!r}, ...)", len(shape))
    result = _lift(value(*(Term(Name(n)) for n in names)))
    stage = Stage(None if label == name else label, name, tuple(Axis(n) for n in names), result.node)
    _require_small(result, name)
    inferred = infer_dtype(stage, result.symbols)
    wanted = DType(dtype) if dtype is not None else inferred
    return Computed(stage, _extents(name, shape), result, wanted, typed=inferred is wanted)


def compute_arg(
    name: str,
    position: str,
    shape: Sequence[ValueLike],
    value: Callable[..., ValueLike],
    *,
    label: str | None = None,
    dtype: str | DType = DType.I64,
) -> tuple[Tensor, Tensor]:
    """A stage whose value is `argmax(...)` or `argmin(...)`: the tensors of its values and of their positions.

    `dtype` is the integer type of the positions.

        V, P = compute_arg("V", "P", (N,), lambda i: argmax(lambda k: X[i, k], K))

    Raises:
        LanguageError: as `compute`.
    """
    values = compute(name, shape, value, label=label)
    assert isinstance(values, Computed)
    values.stage = replace(values.stage, position=_word(position))
    return values, Positions(position, values, DType(dtype))


def program(
    name: str,
    inputs: Sequence[Tensor | ScalarArgument],
    outputs: Sequence[Tensor],
    *,
    params: Sequence[Parameter] | None = None,
) -> Program:
    """The program that computes `outputs` from `inputs`.

    Stages come in the order of their dependencies. Parameters are those used, in the order in which outputs,
    then inputs, then stages name them; `params` gives another order.

    Raises:
        LanguageError: with every mistake in the program, shown in its text.
    """
    from metasched.lang.assemble import assemble

    return assemble(_word(name), tuple(inputs), tuple(outputs), None if params is None else tuple(params))


# --- reductions and functions ----------------------------------------------------------------------------


def _reduction(reducer: Reducer, value: Callable[..., ValueLike], extents: tuple[ValueLike, ...]) -> Value:
    names = _arguments(value, f"{reducer.value}(...)", len(extents))
    ranges = [_lift(n) for n in extents]
    result = _lift(value(*(Term(Name(n)) for n in names)))
    axes = tuple(Axis(n, extent.node) for n, extent in zip(names, ranges, strict=True))
    return Term(Reduce(reducer, axes, result.node), _merge(*(r.symbols for r in ranges), result.symbols))


def sum(value: Callable[..., ValueLike], *extents: ValueLike) -> Value:  # noqa: A001
    """`sum(lambda k: A[i, k] * B[k, j], K)`: one extent for each argument of the function."""
    return _reduction(Reducer.SUM, value, extents)


def prod(value: Callable[..., ValueLike], *extents: ValueLike) -> Value:
    """A product, as `sum`."""
    return _reduction(Reducer.PROD, value, extents)


def max(value: Callable[..., ValueLike] | ValueLike, *others: ValueLike) -> Value:  # noqa: A001
    """`max(x, y)` of two values, or `max(lambda k: A[i, k], K)` over a range."""
    return _extremum(Reducer.MAX, value, others)


def min(value: Callable[..., ValueLike] | ValueLike, *others: ValueLike) -> Value:  # noqa: A001
    """`min(x, y)` of two values, or `min(lambda k: A[i, k], K)` over a range."""
    return _extremum(Reducer.MIN, value, others)


def _extremum(reducer: Reducer, value: Callable[..., ValueLike] | ValueLike, others: tuple[ValueLike, ...]) -> Value:
    if callable(value):
        return _reduction(reducer, value, others)
    return call(reducer.value, value, *others)


def argmax(value: Callable[..., ValueLike], *extents: ValueLike) -> Value:
    """The largest value and its position, for `compute_arg`: `argmax(lambda k: A[i, k], K)`."""
    return _reduction(Reducer.ARGMAX, value, extents)


def argmin(value: Callable[..., ValueLike], *extents: ValueLike) -> Value:
    """The smallest value and its position, as `argmax`."""
    return _reduction(Reducer.ARGMIN, value, extents)


def where(cond: ValueLike, then: ValueLike, otherwise: ValueLike) -> Value:
    """`then if cond else otherwise`; only the side taken is evaluated."""
    c, t, o = _lift(cond), _lift(then), _lift(otherwise)
    return Term(IfElse(t.node, c.node, o.node), _merge(t.symbols, c.symbols, o.symbols))


def cast(value: ValueLike, dtype: str | DType) -> Value:
    """`value` converted to `dtype`."""
    return call(DType(dtype).value, value)


def call(func: str, *args: ValueLike) -> Value:
    """A function of the language by its name."""
    lifted = [_lift(arg) for arg in args]
    return Term(Apply(func, tuple(v.node for v in lifted)), _merge(*(v.symbols for v in lifted)))


def _function(name: str) -> Callable[..., Value]:
    assert name in FUNCTIONS

    def apply(*args: ValueLike) -> Value:
        return call(name, *args)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"`{name}` of {FUNCTIONS[name].arity} argument(s), element by element."
    return apply


exp, exp2, expm1 = _function("exp"), _function("exp2"), _function("expm1")
log, log2, log1p = _function("log"), _function("log2"), _function("log1p")
sqrt, rsqrt, pow = _function("sqrt"), _function("rsqrt"), _function("pow")  # noqa: A001
sin, cos, tanh = _function("sin"), _function("cos"), _function("tanh")
erf, sigmoid = _function("erf"), _function("sigmoid")
abs, floor, ceil = _function("abs"), _function("floor"), _function("ceil")  # noqa: A001


# --- helpers ---------------------------------------------------------------------------------------------


def wrong(message: str, hint: str = "") -> LanguageError:
    """An error of a program that has no text yet."""
    return LanguageError((Diagnostic(1, 1, message, hint),), "", _FILE)


def _extents(name: str, shape: Sequence[ValueLike]) -> tuple[Value, ...]:
    extents = tuple(_lift(n) for n in shape)
    for extent in extents:
        _require_small(extent, name)
    return extents


def _require_small(value: Value, name: str) -> None:
    """Values are shared in Python: one that is used twice at each of forty steps is there 2^40 times in a program."""
    message = too_large(value.node)
    if message is not None:
        raise wrong(f"`{name}`: {message}", SPLIT)


def _lift(value: object) -> Value:
    if isinstance(value, Value):
        return value
    if isinstance(value, bool):
        return Term(BoolLit(value))
    if isinstance(value, float):
        return Term(FloatLit(float(value)))
    if isinstance(value, Tensor):
        raise TypeError(f"`{value.name}` is a tensor: index it, {value.name}[i, j]")
    if hasattr(value, "__index__"):
        return Term(IntLit(value.__index__()))
    raise TypeError(f"{value!r} is no expression of a program: numbers, parameters and indexed tensors are")


def _operation(op: BinOp, a: object, b: object) -> Value:
    left, right = _lift(a), _lift(b)
    return Term(Operation(op, left.node, right.node), _merge(left.symbols, right.symbols))


def _merge(*groups: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """Each symbol once, in order of first appearance."""
    seen: dict[int, Symbol] = {}
    for group in groups:
        for symbol in group:
            seen.setdefault(id(symbol), symbol)
    return tuple(seen.values())


def _word(name: str) -> str:
    if not (name.isascii() and name.isidentifier()):
        raise wrong(f"{name!r} is no name", "names are letters, digits and `_`, and do not begin with a digit")
    return name


def _arguments(function: Callable[..., ValueLike], what: str, count: int) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD or p.kind is p.POSITIONAL_ONLY)
    if len(names) != len(parameters) or len(names) != count:
        raise wrong(
            f"the function of {what} takes {len(parameters)} argument(s), and there are {count} extent(s)",
            "write one named argument for each dimension: their names are the iteration variables'",
        )
    return names
