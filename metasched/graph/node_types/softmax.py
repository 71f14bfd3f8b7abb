"""Softmax along an axis, and its relatives."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.counted.rows import run_along
from metasched.graph.node_types.reductions import kept_shape
from metasched.graph.registry import Import, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, indices, limits, number
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]


@node_type("Softmax", "LogSoftmax", counts=True)
def softmax(site: NodeSite) -> Results:
    """Shares of a row; of those elements that are there."""
    return _run_along_axis(_softmax, site)


def _run_along_axis(run: Import, site: NodeSite) -> Results:
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", -1)), x.rank)
    return run_along(run, site, axis, limits(x.type.dtype)[0])


def _softmax(site: NodeSite) -> Results:
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", -1)), x.rank)
    dtype, wide = x.type.dtype, x.type.dtype.compute
    over, row = indices(x.rank), kept_shape(x.shape, (axis,))
    inner = ["r0" if dim == axis else name for dim, name in enumerate(over)]
    kept = ["0" if dim == axis else name for dim, name in enumerate(over)]
    extent = x.shape[axis]
    log = site.op == "LogSoftmax"
    shifted = f"{cast(at('A', over), dtype, wide)} - {cast(at('M', kept), dtype, wide)}"
    term = cast(at("E", inner), dtype, wide)
    element, total = cast(at("E", over), dtype, wide), cast(at("S", kept), dtype, wide)
    divisor, shift = cast(at("S", over), dtype, wide), at("L", kept)
    summed = "S" if wide is dtype else "T"
    rounded = [declare_buffer("S", ValueType(dtype, row)), f"{at('S', over)} = {dtype}({at('T', over)})"]
    # ONNX defines these by steps in the operand's own type, so a half is rounded after each.
    stages = [
        declare_buffer("M", ValueType(dtype, row)),
        f"{at('M', over)} = max[r0 < {extent}]({at('A', inner)})",
        declare_buffer("E", ValueType(dtype, x.shape)),
        f"{at('E', over)} = {cast(shifted if log else f'exp({shifted})', wide, dtype)}",
        declare_buffer(summed, ValueType(wide, row)),
        f"{at(summed, over)} = sum[r0 < {extent}]({f'exp({term})' if log else term})",
        *([] if wide is dtype else rounded),
        # A logarithm is taken of each row, not for each of its elements.
        *([declare_buffer("L", ValueType(wide, row)), f"{at('L', over)} = log({divisor})"] if log else []),
        f"{at('Y', over)} = {cast(f'{element} - {shift}' if log else f'{element} / {total}', wide, dtype)}",
    ]
    return (site.single(stages, x.type, A=x),)


@node_type("Hardmax", counts=True)
def hardmax(site: NodeSite) -> Results:
    """One at the first of the largest elements of a row, of those that are there."""
    return _run_along_axis(_hardmax, site)


def _hardmax(site: NodeSite) -> Results:
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", -1)), x.rank)
    over, row = indices(x.rank), kept_shape(x.shape, (axis,))
    inner = ["r0" if dim == axis else name for dim, name in enumerate(over)]
    kept = ["0" if dim == axis else name for dim, name in enumerate(over)]
    one, zero = (number(n, x.type.dtype) for n in (1, 0))
    stages = [
        declare_buffer("V", ValueType(x.type.dtype, row)),
        declare_buffer("P", ValueType(DType.I64, row)),
        f"{at('V', over)}, {at('P', over)} = argmax[r0 < {x.shape[axis]}]({at('A', inner)})",
        f"{at('Y', over)} = {one} if {at('P', kept)} == {over[axis]} else {zero}",
    ]
    return (site.single(stages, x.type, A=x),)
