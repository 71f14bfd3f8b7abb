"""Turns accesses of a buffer that has a layout into accesses of the array in memory.

This comes before storage is placed, so that an array shrinks along the dimensions that it has in memory. Quotients
and remainders that the loops around an access decide are gone afterwards: a tile of the loops that fits the layout
leaves indices that are linear in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.nest import Assign, NestLoop, NestStmt, map_children
from metasched.compiler.lower.storage import whole_storage
from metasched.errors import BuildError
from metasched.ir.index_map import image, image_shape, resolve
from metasched.ir.integers.affine import NotAffine, const
from metasched.ir.nodes import Buffer, Expr, Func, IndexMap, Load

Layouts = Mapping[str, IndexMap]


def apply_layouts(func: Func, stmt: NestStmt) -> tuple[Func, NestStmt]:
    """`func` with its buffers in the shapes they have in memory, and `stmt` with the indices there."""
    layouts = {b.name: b.layout for b in func.buffers() if b.layout is not None}
    if not layouts:
        return func, stmt
    inputs, outputs, temps = (tuple(map(_memory_buffer, group)) for group in (func.inputs, func.outputs, func.temps))
    return replace(func, inputs=inputs, outputs=outputs, temps=temps), _apply_to_stmt(stmt, layouts, {})


def memory_shape(buffer: Buffer) -> tuple[int, ...]:
    """The shape of the array that holds an argument: its span in memory, flat, where rows have gaps between them.

    Raises BuildError when it is not constant.
    """
    storage = whole_storage(_memory_buffer(buffer), ArrayKind.INPUT)
    return (storage.size,) if buffer.alignments else storage.shape


def _memory_buffer(buffer: Buffer) -> Buffer:
    if buffer.layout is None:
        return buffer
    try:
        return replace(buffer, shape=image_shape(buffer.layout, buffer.shape), layout=None)
    except NotAffine as error:
        raise BuildError("layout not understood", f"`{buffer.name}`: {error}") from None


def _apply_to_stmt(stmt: NestStmt, layouts: Layouts, ranges: Mapping[str, Expr]) -> NestStmt:
    if isinstance(stmt, Assign):
        indices = _image_indices(stmt.array, stmt.indices, layouts, ranges)
        begins = None if stmt.begins is None else _apply_to_value(stmt.begins, layouts, ranges)
        positions = stmt.positions
        if positions is not None:
            places = _image_indices(positions.array, positions.indices, layouts, ranges)
            positions = replace(positions, indices=places, value=_apply_to_value(positions.value, layouts, ranges))
        value = _apply_to_value(stmt.value, layouts, ranges)
        return replace(stmt, indices=indices, value=value, begins=begins, positions=positions)
    inner = {**ranges, stmt.var: const(stmt.extent)} if isinstance(stmt, NestLoop) else ranges
    return map_children(stmt, lambda child: _apply_to_stmt(child, layouts, inner))


def _apply_to_value(e: Expr, layouts: Layouts, ranges: Mapping[str, Expr]) -> Expr:
    e = e.map(lambda child: _apply_to_value(child, layouts, ranges))
    return replace(e, indices=_image_indices(e.buffer, e.indices, layouts, ranges)) if isinstance(e, Load) else e


def _image_indices(
    buffer: str, indices: tuple[Expr, ...], layouts: Layouts, ranges: Mapping[str, Expr]
) -> tuple[Expr, ...]:
    layout = layouts.get(buffer)
    if layout is None:
        return indices
    return tuple(resolve(e, ranges) for e in image(layout, indices))
