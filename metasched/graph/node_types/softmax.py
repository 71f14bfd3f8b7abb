"""Softmax along an axis, and its relatives."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.ir import ValueType
from metasched.graph.node_types.reductions import kept_shape
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declared, indices, number

Results = tuple[GraphValue, ...]


@node_type("Softmax", "LogSoftmax")
def softmax(site: NodeSite) -> Results:
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", -1)), x.rank)
    dtype, wide = x.type.dtype, x.type.dtype.compute
    over, row = indices(x.rank), kept_shape(x.shape, (axis,))
    inner = ["r0" if dim == axis else name for dim, name in enumerate(over)]
    kept = ["0" if dim == axis else name for dim, name in enumerate(over)]
    extent = x.shape[axis]
    cast = (lambda text: text) if wide is dtype else (lambda text: f"{wide}({text})")
    shifted = f"{cast(at('A', over))} - {at('M', kept)}"
    log = site.op == "LogSoftmax"
    term = f"exp({at('E', inner)})" if log else at("E", inner)
    stages = [
        declared("M", ValueType(wide, row)),
        f"{at('M', over)} = max[r0 < {extent}]({cast(at('A', inner))})",
        declared("E", ValueType(wide, x.shape)),
        f"{at('E', over)} = {f'exp({shifted})' if not log else shifted}",
        declared("S", ValueType(wide, row)),
        f"{at('S', over)} = sum[r0 < {extent}]({term})",
    ]
    result = f"{at('E', over)} - log({at('S', kept)})" if log else f"{at('E', over)} / {at('S', kept)}"
    stages.append(f"{at('Y', over)} = {result if wide is dtype else f'{dtype}({result})'}")
    return (site.single(stages, x.type, A=x),)


@node_type("Hardmax")
def hardmax(site: NodeSite) -> Results:
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", -1)), x.rank)
    over, row = indices(x.rank), kept_shape(x.shape, (axis,))
    inner = ["r0" if dim == axis else name for dim, name in enumerate(over)]
    kept = ["0" if dim == axis else name for dim, name in enumerate(over)]
    one, zero = (number(n, x.type.dtype) for n in (1, 0))
    stages = [
        declared("V", ValueType(x.type.dtype, row)),
        declared("P", ValueType(DType.I64, row)),
        f"{at('V', over)}, {at('P', over)} = argmax[r0 < {x.shape[axis]}]({at('A', inner)})",
        f"{at('Y', over)} = {one} if {at('P', kept)} == {over[axis]} else {zero}",
    ]
    return (site.single(stages, x.type, A=x),)
