"""Programs built in Python: the same tree as from text.

    N, M, K = param("N", 512), param("M", 512), param("K", 512)
    A, B = placeholder("A", (N, K)), placeholder("B", (K, M))
    C = compute("C", (N, M), lambda i, j: sum(lambda k: A[i, k] * B[k, j], K), label="dense")
    D = compute("D", (N, M), lambda i, j: max(C[i, j], 0))
    prog = program("dense_relu", [A, B], [D])

Iteration variables are named by the functions' arguments. The shape of an intermediate buffer and the range of a
reduction are written into the tree only where the text would need them: where no read implies the same extent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from metasched.dtypes import DType, hint_for_type
from metasched.ir.limits import SPLIT, too_large
from metasched.ir.nodes import Reducer
from metasched.ir.program import Program
from metasched.ir.source import Apply, Axis, IfElse, Name, Reduce, Stage
from metasched.lang.assemble import assemble, infer_dtype
from metasched.lang.python_values import (
    Computed,
    Parameter,
    Positions,
    ScalarArgument,
    Size,
    Tensor,
    Term,
    Value,
    ValueLike,
    lift,
    merge,
    program_error,
    require_valid_name,
)
from metasched.support.messages import counted

__all__ = [
    "param", "let", "scalar", "placeholder", "compute", "program",
    "sum", "prod", "max", "min", "compute_arg", "argmax", "argmin", "where", "clamp", "mirror", "cast", "call",
    "Tensor", "Value",
]  # fmt: skip


# --- the parts of programs -------------------------------------------------------------------------------


def param(name: str, default: int) -> Parameter:
    """A parameter of a program: a size that is set when the program is loaded, with a default.

        >>> N = ms.param("N", 8)
        >>> A = ms.placeholder("A", (N,))
        >>> print(ms.program("twice", [A], [ms.compute("B", (N,), lambda i: 2 * A[i])]))
        program twice[N=8](A: f32[N]) -> B: f32[N]:
            B[i] = 2 * A[i]

    In a program's text it stands in brackets after the program's name, and `load_program(path, N=16)` sets it.
    """
    return Parameter(name, default)


def let(name: str, value: ValueLike) -> Size:
    """A named size, which is computed from parameters and other sizes.

        >>> N = ms.param("N", 8)
        >>> H, A = ms.let("H", N // 2), ms.placeholder("A", (N,))
        >>> print(ms.program("halves", [A], [ms.compute("B", (H,), lambda i: A[2 * i])]))
        program halves[N=8](A: f32[N]) -> B: f32[H]:
            let H = N // 2
            B[i] = A[2 * i]

    Shapes and indices may use it.
    """
    lifted = lift(value)
    _require_small(lifted, name)
    return Size(name, lifted)


def scalar(name: str, dtype: str | DType = DType.F32) -> ScalarArgument:
    """A scalar argument: a number that each call gives.

        >>> A, alpha = ms.placeholder("A", (8,)), ms.scalar("alpha")
        >>> print(ms.program("scaled", [A, alpha], [ms.compute("B", (8,), lambda i: alpha * A[i])]))
        program scaled(A: f32[8], alpha: f32) -> B: f32[8]:
            B[i] = alpha * A[i]

    Raises LanguageError for a `dtype` that is no element type.
    """
    return ScalarArgument(name, _element_type(dtype))


def placeholder(
    name: str, shape: Sequence[ValueLike], dtype: str | DType = DType.F32, *, const: bool = False
) -> Tensor:
    """An input tensor.

        >>> ms.placeholder("W", (ms.param("K", 8), 16), "bf16", const=True).name
        'W'

    Args:
        name: of the argument.
        shape: its extents: integers, parameters, sizes, or arithmetic of these.
        dtype: the type of its elements, such as "f32", "bf16" or "i8".
        const: marks weights, which do not change between calls: `kernel.pack` computes once what depends on them alone.

    Raises LanguageError for a `dtype` that is no element type.
    """
    return Tensor(name, _check_extents(name, shape), _element_type(dtype), const=const)


def compute(
    name: str,
    shape: Sequence[ValueLike],
    value: Callable[..., ValueLike],
    *,
    label: str | None = None,
    dtype: str | DType | None = None,
) -> Tensor:
    """A stage: the tensor whose element at `i, j, ...` is `value(i, j, ...)`.

        >>> A = ms.placeholder("A", (4, 8))
        >>> B = ms.compute("B", (8, 4), lambda j, i: 2 * A[i, j], label="twice")
        >>> print(ms.program("transposed", [A], [B]))
        program transposed(A: f32[4, 8]) -> B: f32[8, 4]:
            twice: B[j, i] = 2 * A[i, j]

    The iteration variables are named by the arguments of `value`. `dtype` is required if the value consists of numbers
    alone.

    Raises:
        LanguageError: when `value` does not take one argument for each dimension.
    """
    names = _arguments(value, f"compute({name!r}, ...)", len(shape))
    result = lift(value(*(Term(Name(n)) for n in names)))
    stage = Stage(None if label == name else label, name, tuple(Axis(n) for n in names), result.node)
    _require_small(result, name)
    inferred = infer_dtype(stage, result.symbols)
    wanted = _element_type(dtype) if dtype is not None else inferred
    return Computed(stage, _check_extents(name, shape), result, wanted, typed=inferred is wanted)


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

        >>> X = ms.placeholder("X", (4, 8))
        >>> V, P = ms.compute_arg("V", "P", (4,), lambda i: ms.argmax(lambda k: X[i, k], 8))
        >>> print(ms.program("largest", [X], [V, P]))
        program largest(X: f32[4, 8]) -> (V: f32[4], P: i64[4]):
            V[i], P[i] = argmax[k](X[i, k])

    Raises:
        LanguageError: as `compute`.
    """
    values = compute(name, shape, value, label=label)
    assert isinstance(values, Computed)
    values.stage = replace(values.stage, position=require_valid_name(position))
    return values, Positions(position, values, _element_type(dtype))


def program(
    name: str,
    inputs: Sequence[Tensor | ScalarArgument],
    outputs: Sequence[Tensor],
    *,
    params: Sequence[Parameter] | None = None,
) -> Program:
    """The program that computes `outputs` from `inputs`.

        >>> A = ms.placeholder("A", (8,))
        >>> ms.program("twice", [A], [ms.compute("B", (8,), lambda i: 2 * A[i])])
        <program twice(A: f32[8]) -> B: f32[8], 1 stage>

    Stages come in the order of their dependencies. Parameters are those used, in the order in which outputs,
    then inputs, then stages name them; `params` gives another order.

    Raises:
        LanguageError: with every mistake in the program, shown in its text.
    """
    return assemble(require_valid_name(name), tuple(inputs), tuple(outputs), None if params is None else tuple(params))


# --- reductions and functions ----------------------------------------------------------------------------


def _reduction(
    reducer: Reducer,
    value: Callable[..., ValueLike],
    extents: tuple[ValueLike, ...],
    where: Callable[..., ValueLike] | None,
) -> Value:
    names = _arguments(value, f"{reducer.value}(...)", len(extents))
    ranges = [lift(n) for n in extents]
    indices = [Term(Name(n)) for n in names]
    result = lift(value(*indices))
    axes = tuple(Axis(n, extent.node) for n, extent in zip(names, ranges, strict=True))
    symbols = merge(*(r.symbols for r in ranges), result.symbols)
    if where is None:
        return Term(Reduce(reducer, axes, result.node), symbols)
    if _arguments(where, f"where= of {reducer.value}(...)", len(extents)) != names:
        raise program_error(
            f"where= of {reducer.value}(...) names other variables than its terms", f"use {', '.join(names)}"
        )
    cond = lift(where(*indices))
    return Term(Reduce(reducer, axes, result.node, cond.node), merge(symbols, cond.symbols))


Condition: TypeAlias = Callable[..., ValueLike] | None


def sum(value: Callable[..., ValueLike], *extents: ValueLike, where: Condition = None) -> Value:  # noqa: A001
    """The sum of the terms that a function gives: `sum(lambda k: A[i, k] * B[k, j], K)`.

        >>> A = ms.placeholder("A", (4, 8))
        >>> S = ms.compute("S", (4,), lambda i: ms.sum(lambda k: A[i, k], 8, where=lambda k: k <= i))
        >>> print(ms.program("sums", [A], [S]))
        program sums(A: f32[4, 8]) -> S: f32[4]:
            S[i] = sum[k if k <= i](A[i, k])

    Args:
        value: the term, a function of one iteration variable or more, whose names are those of its arguments.
        extents: how far each of these goes, one for each argument.
        where: which terms there are, a function of the same arguments; by default all.
    """
    return _reduction(Reducer.SUM, value, extents, where)


def prod(value: Callable[..., ValueLike], *extents: ValueLike, where: Condition = None) -> Value:
    """The product of the terms; its arguments are those of `sum`.

        >>> A = ms.placeholder("A", (4, 8))
        >>> P = ms.compute("P", (4,), lambda i: ms.prod(lambda k: A[i, k], 8))
        >>> print(ms.program("products", [A], [P]))
        program products(A: f32[4, 8]) -> P: f32[4]:
            P[i] = prod[k](A[i, k])

    Like `sum`, it takes several extents, and `where`.
    """
    return _reduction(Reducer.PROD, value, extents, where)


def max(  # noqa: A001
    value: Callable[..., ValueLike] | ValueLike, *others: ValueLike, where: Condition = None
) -> Value:
    """The larger of two values, `max(x, y)`, or the largest term, `max(lambda k: A[i, k], K)`, as `sum`.

        >>> A = ms.placeholder("A", (4, 8))
        >>> M = ms.compute("M", (4,), lambda i: ms.max(lambda k: ms.max(A[i, k], 0), 8))
        >>> print(ms.program("largest", [A], [M]))
        program largest(A: f32[4, 8]) -> M: f32[4]:
            M[i] = max[k](max(A[i, k], 0))

    The latter takes several extents, and `where`, as `sum` does.
    """
    return _extremum(Reducer.MAX, value, others, where)


def min(  # noqa: A001
    value: Callable[..., ValueLike] | ValueLike, *others: ValueLike, where: Condition = None
) -> Value:
    """The smaller of two values, `min(x, y)`, or the smallest term, `min(lambda k: A[i, k], K)`, as `sum`.

        >>> A = ms.placeholder("A", (4, 8))
        >>> print(ms.program("capped", [A], [ms.compute("B", (4, 8), lambda i, j: ms.min(A[i, j], 6))]))
        program capped(A: f32[4, 8]) -> B: f32[4, 8]:
            B[i, j] = min(A[i, j], 6)

    The latter takes several extents, and `where`, as `sum` does.
    """
    return _extremum(Reducer.MIN, value, others, where)


def _extremum(
    reducer: Reducer, value: Callable[..., ValueLike] | ValueLike, others: tuple[ValueLike, ...], where: Condition
) -> Value:
    if callable(value):
        return _reduction(reducer, value, others, where)
    if where is not None:
        raise program_error(
            f"{reducer.value}(x, y) of two values has no where=", "where(condition, x, y) chooses one of two"
        )
    return call(reducer.value, value, *others)


def argmax(value: Callable[..., ValueLike], *extents: ValueLike, where: Condition = None) -> Value:
    """The largest value and its position, for `compute_arg`; the first of several that are as large.

        >>> X = ms.placeholder("X", (4, 8))
        >>> V, P = ms.compute_arg("V", "P", (4,), lambda i: ms.argmax(lambda k: X[i, k], 8))

    Like `sum`, it takes `where`.
    """
    return _reduction(Reducer.ARGMAX, value, extents, where)


def argmin(value: Callable[..., ValueLike], *extents: ValueLike, where: Condition = None) -> Value:
    """The smallest value and its position, as `argmax`.

        >>> X = ms.placeholder("X", (4, 8))
        >>> V, P = ms.compute_arg("V", "P", (4,), lambda i: ms.argmin(lambda k: X[i, k], 8))

    Like `sum`, it takes `where`.
    """
    return _reduction(Reducer.ARGMIN, value, extents, where)


def clamp(x: ValueLike, low: ValueLike, high: ValueLike) -> Value:
    """`min(max(x, low), high)`. As an index, it reads the nearest element where `x` is beyond a border.

        >>> A = ms.placeholder("A", (8,))
        >>> print(ms.program("shifted", [A], [ms.compute("B", (8,), lambda i: A[ms.clamp(i - 1, 0, 7)])]))
        program shifted(A: f32[8]) -> B: f32[8]:
            B[i] = A[clamp(i - 1, 0, 7)]

    `low` and `high` are both included.
    """
    return call("clamp", x, low, high)


def mirror(x: ValueLike, size: ValueLike) -> Value:
    """The index reflected at the first element and at the last, `size - 1`: -1 is 1, as NumPy's `reflect` pads.

        >>> A = ms.placeholder("A", (8,))
        >>> print(ms.program("shifted", [A], [ms.compute("B", (8,), lambda i: A[ms.mirror(i - 1, 8)])]))
        program shifted(A: f32[8]) -> B: f32[8]:
            B[i] = A[mirror(i - 1, 8)]

    `size` is the extent of the dimension that is read.
    """
    return call("mirror", x, size)


def where(cond: ValueLike, then: ValueLike, otherwise: ValueLike) -> Value:
    """`then if cond else otherwise`.

        >>> A = ms.placeholder("A", (8,))
        >>> B = ms.compute("B", (8,), lambda i: ms.where(A[i] > 0, ms.log(A[i]), 0))
        >>> print(ms.program("logs", [A], [B]))
        program logs(A: f32[8]) -> B: f32[8]:
            B[i] = log(A[i]) if A[i] > 0 else 0

    Only the side taken is evaluated.
    """
    c, t, o = lift(cond), lift(then), lift(otherwise)
    return Term(IfElse(t.node, c.node, o.node), merge(t.symbols, c.symbols, o.symbols))


def cast(value: ValueLike, dtype: str | DType) -> Value:
    """`value` converted to the element type `dtype`.

        >>> A = ms.placeholder("A", (8,), "i8")
        >>> print(ms.program("floats", [A], [ms.compute("B", (8,), lambda i: ms.cast(A[i], "f32"))]))
        program floats(A: i8[8]) -> B: f32[8]:
            B[i] = f32(A[i])

    Raises LanguageError for what is no element type.
    """
    return call(_element_type(dtype).value, value)


def call(func: str, *args: ValueLike) -> Value:
    """A function of the language by its name: `ms.call("exp", x)` is `ms.exp(x)`.

        >>> A = ms.placeholder("A", (8,))
        >>> print(ms.program("powers", [A], [ms.compute("B", (8,), lambda i: ms.call("exp", A[i]))]))
        program powers(A: f32[8]) -> B: f32[8]:
            B[i] = exp(A[i])

    `metasched.functions` has the functions.
    """
    lifted = [lift(arg) for arg in args]
    return Term(Apply(func, tuple(v.node for v in lifted)), merge(*(v.symbols for v in lifted)))


# --- helpers ---------------------------------------------------------------------------------------------


def _check_extents(name: str, shape: Sequence[ValueLike]) -> tuple[Value, ...]:
    extents = tuple(lift(n) for n in shape)
    for extent in extents:
        _require_small(extent, name)
    return extents


def _require_small(value: Value, name: str) -> None:
    """Raise for a value that is too large. Values are shared in Python: forty steps that each use the last one twice
    make 2^40 copies in a program."""
    message = too_large(value.node)
    if message is not None:
        raise program_error(f"`{name}`: {message}", SPLIT)


def _arguments(function: Callable[..., ValueLike], what: str, count: int) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    names = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD or p.kind is p.POSITIONAL_ONLY)
    if len(names) != len(parameters) or len(names) != count:
        raise program_error(
            f"the function of {what} takes {counted(len(parameters), 'argument')}, and "
            f"there {'is' if count == 1 else 'are'} {counted(count, 'extent')}",
            "write one named argument for each dimension: their names are the iteration variables'",
        )
    return names


def _element_type(given: str | DType) -> DType:
    """Raises LanguageError for what is no element type, with what may be meant."""
    try:
        return DType(given)
    except ValueError:
        raise program_error(f"{given!r} is no element type", hint_for_type(str(given))) from None
