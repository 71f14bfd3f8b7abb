"""Determinants of square matrices, by elimination: the largest element of each column is its pivot."""

from __future__ import annotations

import math

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import cast, declare_buffer
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]

# Each row is some stages of a program.
_LARGEST = 64


@node_type("Det")
def determinant(site: NodeSite) -> Results:
    """The determinants of matrices in the last two dimensions."""
    x = site.operand(0)
    if x.rank < 2 or x.shape[-1] != x.shape[-2]:
        raise Unsupported(f"its input is {x.type}, and no square matrices")
    size, batch = x.shape[-1], math.prod(x.shape[:-2])
    if not 1 <= size <= _LARGEST:
        raise Unsupported(f"matrices have {size} rows, and from 1 to {_LARGEST} are eliminated row by row")
    wide = x.type.dtype.compute
    stages = [
        declare_buffer("A0", ValueType(wide, (batch, size, size))),
        f"A0[b, i, j] = {cast('X[b, i, j]', x.type.dtype, wide)}",
    ]
    factors = []
    for step in range(size):
        stages += _eliminate(step, size - step, batch, wide)
        factors.append(f"D{step}[b]")
    stages.append(f"Y[b] = {cast(' * '.join(factors), wide, x.type.dtype)}")
    flat = site.view(x, (batch, size, size))
    return (site.view(site.single(stages, ValueType(x.type.dtype, (batch,)), X=flat), x.shape[:-2]),)


def _eliminate(step: int, size: int, batch: int, wide: DType) -> list[str]:
    """The stages that take the first row and column off: the pivot `D`, and what is left of the matrix, `A`."""
    own, rest = f"A{step}", f"A{step + 1}"
    row = ValueType(wide, (batch,))
    if size == 1:
        return [declare_buffer(f"D{step}", row), f"D{step}[b] = {own}[b, 0, 0]"]
    pivot = f"P{step}[b]"
    source = "({0}[b, 0, {1}] if {2} == i + 1 else {0}[b, i + 1, {1}])"  # rows change places
    below, first = (source.format(own, column, pivot) for column in ("j + 1", "0"))
    return [
        declare_buffer(f"V{step}", row),
        declare_buffer(f"P{step}", ValueType(DType.I64, (batch,))),
        f"V{step}[b], {pivot} = argmax[r < {size}](abs({own}[b, r, 0]))",
        declare_buffer(f"E{step}", row),
        f"E{step}[b] = {own}[b, {pivot}, 0]",
        declare_buffer(f"D{step}", row),
        f"D{step}[b] = E{step}[b] if {pivot} == 0 else -E{step}[b]",
        declare_buffer(f"F{step}", ValueType(wide, (batch, size - 1))),
        f"F{step}[b, i] = {first} / E{step}[b] if E{step}[b] != 0.0 else 0.0",
        declare_buffer(rest, ValueType(wide, (batch, size - 1, size - 1))),
        f"{rest}[b, i, j] = {below} - F{step}[b, i] * {own}[b, {pivot}, j + 1]",
    ]
