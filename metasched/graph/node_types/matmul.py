"""Products of matrices."""

from __future__ import annotations

import math

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.counted.rows import run_summed
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, broadcast, cast, declare_buffer, indices, operand_text, read, real
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]

# The names of the operands of a contraction: as many as it may have.
_OPERANDS = "ABCDEFGH"
# Of how many operations at most a contraction is done in several steps, of those of all at once: steps write and read
# what is between them.
_FEWER = 0.6
_MOST_LETTERS = 26
# Of how many operands at most all orders are compared.
_MOST_ORDERED = 5


@node_type("MatMul", counts=True)
def matmul(site: NodeSite) -> Results:
    x, y = site.operands
    return run_summed(_matmul, site, (x.rank - 1, max(y.rank - 2, 0)))


def _matmul(site: NodeSite) -> Results:
    x, y = site.operands
    if x.type.dtype is not y.type.dtype:
        raise Unsupported("its operands have different element types")
    return (product(site, x, y, x.type.dtype.compute, x.type.dtype),)


def product(site: NodeSite, x: GraphValue, y: GraphValue, wide: DType, result: DType) -> GraphValue:
    """`x @ y` as NumPy has it, summed in a wide type."""
    if not x.rank or not y.rank:
        raise Unsupported(f"{x.type} and {y.type} are no matrices")
    a = x if x.rank > 1 else site.view(x, (1, *x.shape))
    b = y if y.rank > 1 else site.view(y, (*y.shape, 1))
    rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.shape[-2] != depth:
        raise Unsupported(f"the inner sizes of {x.type} and {y.type} differ")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    shape = (*batch, rows, columns)
    final = (*batch, *((rows,) if x.rank > 1 else ()), *((columns,) if y.rank > 1 else ()))
    type_ = ValueType(wide, shape)
    if not depth and type_.size:
        return site.single([f"{at('Y', indices(len(final)))} = {result}(0)"], ValueType(result, final))
    over = indices(len(shape))
    left = read("A", a.shape, (*over[:-1], "k"), (*batch, rows, depth))
    right = read("B", b.shape, (*over[:-2], "k", over[-1]), (*batch, depth, columns))
    text = f"{cast(left, x.type.dtype, wide)} * {cast(right, y.type.dtype, wide)}"
    total = f"sum[k < {depth}]({text})"
    if result is wide:
        made = site.single([f"{at('Y', over)} = {total}"], type_, A=a, B=b)
    else:
        stages = [
            declare_buffer("T", type_),
            f"{at('T', over)} = {total}",
            f"{at('Y', over)} = {result}({at('T', over)})",
        ]
        made = site.single(stages, ValueType(result, shape), A=a, B=b)
    return site.view(made, final)


@node_type("Gemm", counts=True)
def gemm(site: NodeSite) -> Results:
    """alpha * A @ B + beta * C, with A and B transposed where the attributes say so."""
    return run_summed(_gemm, site, (0 if site.flag("transA") else 1, 1 if site.flag("transB") else 0))


def _gemm(site: NodeSite) -> Results:
    a, b, c = site.operand(0), site.operand(1), site.optional(2)
    if a.rank != 2 or b.rank != 2:
        raise Unsupported(f"{a.type} and {b.type} are not both matrices")
    across, down = site.flag("transA"), site.flag("transB")
    m, k = reversed(a.shape) if across else a.shape
    inner, n = reversed(b.shape) if down else b.shape
    if inner != k:
        raise Unsupported(f"the inner sizes of {a.type} and {b.type} differ")
    dtype, wide = a.type.dtype, a.type.dtype.compute
    alpha, beta = float(site.attribute("alpha", 1.0)), float(site.attribute("beta", 1.0))
    if not dtype.is_float and not (alpha.is_integer() and beta.is_integer()):
        raise Unsupported("of integers, alpha and beta must be whole numbers")
    left, right = ("A[k, i]" if across else "A[i, k]"), ("B[j, k]" if down else "B[k, j]")
    total = f"sum[k < {k}]({cast(left, dtype, wide)} * {cast(right, dtype, wide)})"
    type_ = ValueType(dtype, (m, n))
    scaled, added = _scale_text("T[i, j]", alpha, wide), ""
    if c is not None and beta:
        if broadcast(c.shape, (m, n)) != (m, n):
            raise Unsupported(f"{c.type} does not broadcast to {type_}")
        added = " + " + _scale_text(cast(operand_text("C", c, ("i", "j"), (m, n)), dtype, wide), beta, wide)
    if not added and alpha == 1 and wide is dtype:
        return (site.single([f"Y[i, j] = {total}"], type_, A=a, B=b),)
    stages = [
        declare_buffer("T", ValueType(wide, (m, n))),
        f"T[i, j] = {total}",
        f"Y[i, j] = {cast(scaled + added, wide, dtype)}",
    ]
    return (site.single(stages, type_, A=a, B=b, C=c),)


def _scale_text(text: str, factor: float, dtype: DType) -> str:
    if factor == 1:
        return text
    return f"{text} * {real(factor) if dtype.is_float else int(factor)}"


@node_type("MatMulInteger")
def matmul_integer(site: NodeSite) -> Results:
    x, y = site.operand(0), site.operand(1)
    a = subtract_zero_point(site, x, site.optional(2), -2)
    b = subtract_zero_point(site, y, site.optional(3), -1)
    return (product(site, a, b, DType.I32, DType.I32),)


def subtract_zero_point(site: NodeSite, x: GraphValue, zero: GraphValue | None, axis: int) -> GraphValue:
    """Quantised elements without their zero point, which is one number or one for each entry of an axis."""
    if zero is None or (zero.constant is not None and not zero.constant.any()):
        return x
    if zero.rank == 1 and zero.type.size > 1:
        shape = [1] * x.rank
        shape[axis] = zero.shape[0]
        zero = site.view(zero, shape)
    elif zero.type.size == 1:
        zero = site.view(zero, ())
    return site.with_arguments("i32({0}) - i32({1})", [x, zero], DType.I32)


@node_type("Einsum", counts=True)
def einsum(site: NodeSite) -> Results:
    inputs, result = _operand_subscripts(site)
    axes = (None if x.count is None else x.count.axis for x in site.operands)
    summed = [
        None if axis is None or subscript[axis] in result else axis
        for axis, subscript in zip(axes, inputs, strict=True)
    ]
    return run_summed(_einsum, site, summed)


def _operand_subscripts(site: NodeSite) -> tuple[list[str], str]:
    return _subscripts(str(site.require_attribute("equation")), [x.rank for x in site.operands])


def _einsum(site: NodeSite) -> Results:
    operands = site.operands
    inputs, result = _operand_subscripts(site)
    extents: dict[str, int] = {}
    for subscript, x in zip(inputs, operands, strict=True):
        for letter, extent in zip(subscript, x.shape, strict=True):
            if extents.setdefault(letter, extent) not in (extent, 1) and extent != 1:
                raise Unsupported(f"`{letter}` is {extents[letter]} and {extent}")
            extents[letter] = max(extents[letter], extent)
    if len(operands) > len(_OPERANDS):
        raise Unsupported(f"it has more than {len(_OPERANDS)} operands")
    terms = list(zip(inputs, operands, strict=True))
    wide = operands[0].type.dtype.compute
    for chosen in _order(inputs, result, extents):
        taken = [terms.pop(n) for n in sorted(chosen, reverse=True)][::-1]
        needed = {*result, *(letter for subscript, _ in terms for letter in subscript)}
        left = "".join(letter for letter in extents if letter in needed and any(letter in s for s, _ in taken))
        terms.append((left, _contract(site, taken, left, extents, wide)))
    return (_contract(site, terms, result, extents, operands[0].type.dtype),)


def _order(inputs: list[str], result: str, extents: dict[str, int]) -> list[tuple[int, ...]]:
    """Which operands to multiply and sum first, those of each step by their places in what is left, with the result of
    a step behind the others; none where all at once takes about as few operations.
    """
    names = {letter: chr(ord("a") + n) for n, letter in enumerate(extents)}
    whole = math.prod(extents.values())
    if len(inputs) < 3 or len(names) > _MOST_LETTERS or not whole:
        return []
    texts = ["".join(names[letter] for letter in subscript) for subscript in (*inputs, result)]
    shapes = [np.broadcast_to(np.int8(0), [extents[letter] for letter in subscript]) for subscript in inputs]
    equation = f"{','.join(texts[:-1])}->{texts[-1]}"
    search = "optimal" if len(inputs) <= _MOST_ORDERED else "greedy"
    _, *steps = np.einsum_path(equation, *shapes, optimize=(search, whole))[0]
    left, operations = list(inputs), 0
    for step in steps:
        taken = "".join(left.pop(n) for n in sorted(step, reverse=True))
        operations += math.prod(extents[letter] for letter in set(taken))
        left.append("".join(letter for letter in set(taken) if letter in result + "".join(left)))
    return steps[:-1] if operations < _FEWER * whole else []


def _contract(
    site: NodeSite, terms: list[tuple[str, GraphValue]], result: str, extents: dict[str, int], dtype: DType
) -> GraphValue:
    """The product of some operands, each with its letters, summed over all letters but those of the result."""
    wide = dtype.compute
    inputs, operands = [subscript for subscript, _ in terms], [x for _, x in terms]
    parts = [
        cast(read(name, x.shape, _named(subscript), _sizes(subscript, extents)), x.type.dtype, wide)
        for name, (subscript, x) in zip(_OPERANDS, terms, strict=False)
    ]
    text = " * ".join(parts)
    summed = sorted(set("".join(inputs)) - set(result))
    left, shape = at("Y", _named(result)), _sizes(result, extents)
    if summed:
        text = f"sum[{', '.join(f'{_index(s)} < {extents[s]}' for s in summed)}]({text})"
    given = dict(zip(_OPERANDS, operands, strict=False))
    type_ = ValueType(dtype, shape)
    if wide is dtype or not summed:
        return site.single([f"{left} = {text if wide is dtype else f'{dtype}({text})'}"], type_, **given)
    total = at("T", _named(result))
    stages = [declare_buffer("T", ValueType(wide, shape)), f"{total} = {text}", f"{left} = {dtype}({total})"]
    return site.single(stages, type_, **given)


def _named(subscript: str) -> list[str]:
    return [_index(letter) for letter in subscript]


def _sizes(subscript: str, extents: dict[str, int]) -> tuple[int, ...]:
    return tuple(extents[letter] for letter in subscript)


def _index(letter: str) -> str:
    """The name of an index variable; upper-case letters, and those of an ellipsis, have others."""
    return f"{letter}_" if letter.islower() else f"{letter.lower()}u" if letter.isalpha() else f"e{letter}"


def _subscripts(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; the dimensions of an ellipsis are digits."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise Unsupported(f"`{equation}` is of {len(inputs)} operands, and there are {len(ranks)}")
    hidden = [rank - len(s.replace("...", "")) for s, rank in zip(inputs, ranks, strict=True)]
    if any(n < 0 or (n and "..." not in s) for n, s in zip(hidden, inputs, strict=True)) or max(hidden) > 9:
        raise Unsupported(f"`{equation}` does not fit operands of {ranks} dimensions")
    most = max(hidden)
    digits = "0123456789"[:most]
    whole = [s.replace("...", digits[most - n :]) for s, n in zip(inputs, hidden, strict=True)]
    if arrow:
        return whole, right.replace("...", digits)
    joined = left.replace(",", "").replace("...", "")
    return whole, digits + "".join(sorted(s for s in set(joined) if joined.count(s) == 1))
