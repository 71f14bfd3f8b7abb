"""A tensorised nest becomes one use of its intrinsic: where each operand starts, and its strides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metasched.compiler import lir
from metasched.compiler.lower.nest import Assign, NestLoop, NestStmt
from metasched.errors import BuildError
from metasched.ir.index_map import resolve
from metasched.ir.integers.affine import ZERO, NotAffine, as_int, coefficient, const, free_vars, simplify, substitute
from metasched.ir.nodes import Const, Expr, Load, Var
from metasched.schedule.tensor import Intrinsic, Mismatch, intrinsics, unify_operands
from metasched.support.data_classes import dataclass

Flat = Callable[[Load], Expr]
"""The flat index of an access."""


@dataclass(frozen=True)
class TensorNest:
    """A nest that an intrinsic computes: the loops by the intrinsic's axes, and the update inside."""

    intrinsic: Intrinsic
    loops: Mapping[str, NestLoop]
    update: Assign


def tensor_nest(loop: NestLoop) -> TensorNest:
    """The nest of a loop with an intrinsic. Its loops are in the order of the intrinsic's axes.

    Raises BuildError where lowering has put something else into it.
    """
    assert loop.tensor is not None
    intrinsic = intrinsics()[loop.tensor]
    loops: dict[str, NestLoop] = {}
    inside: NestStmt = loop
    for axis in intrinsic.axes:
        if not isinstance(inside, NestLoop) or inside.clips:
            break
        loops[axis] = inside
        inside = inside.body
    if len(loops) != len(intrinsic.axes) or not isinstance(inside, Assign):
        raise BuildError("tensorized nest not whole", f"`{loop.tensor}` shares loop `{loop.var}` with something else")
    return TensorNest(intrinsic, loops, inside)


def tensor_statement(loop: NestLoop, flat: Flat, order: Callable[[Expr], Expr]) -> lir.IntrinsicCall | lir.TileMove:
    """The statement of a nest with an intrinsic: a call of it, or a move of its output to or from tile registers."""
    inside: NestStmt = loop
    while isinstance(inside, NestLoop):
        inside = inside.body
    if isinstance(inside, Assign) and inside.reducer is None and _is_move(inside.value):
        return _tile_move(loop, inside, flat, order)
    return intrinsic_call(tensor_nest(loop), flat, order)


def _is_move(value: Expr) -> bool:
    return isinstance(value, Load | Const)


def _tile_move(loop: NestLoop, assign: Assign, flat: Flat, order: Callable[[Expr], Expr]) -> lir.TileMove:
    assert loop.tensor is not None
    intrinsic = intrinsics()[loop.tensor]
    wanted = intrinsic.operands[0]
    loops: dict[str, NestLoop] = {}
    inside: NestStmt = loop
    for axis in wanted.indices:
        assert isinstance(axis, Var)
        assert isinstance(inside, NestLoop)
        loops[axis.name] = inside
        inside = inside.body
    nest = TensorNest(intrinsic, loops, assign)
    written = Load(assign.array, assign.indices, assign.value.dtype)
    source = assign.value if isinstance(assign.value, Load) else None
    return lir.TileMove(
        intrinsic.name,
        _flat_operand(nest, wanted, written, flat, order),
        None if source is None else _flat_operand(nest, wanted, source, flat, order),
    )


def intrinsic_call(nest: TensorNest, flat: Flat, order: Callable[[Expr], Expr]) -> lir.IntrinsicCall:
    """The call of a nest's intrinsic; `order` puts the terms of an index in the order of loops. Raises BuildError."""
    assignments = _operand_assignments(nest, flat)
    if not assignments:
        raise BuildError("tensorized nest changed", f"block `{nest.update.block}` is no more `{nest.intrinsic.name}`")
    operands = [
        _flat_operand(nest, wanted, access, flat, order)
        for wanted, access in zip(nest.intrinsic.operands, assignments[0], strict=True)
    ]
    return lir.IntrinsicCall(nest.intrinsic.name, operands[0], tuple(operands[1:]))


def _operand_assignments(nest: TensorNest, flat: Flat) -> list[tuple[Load, ...]]:
    """The accesses that can be the intrinsic's operands: each moves with no other axes than the operand's own.

    Two of one element type can change places in a product.
    """
    written = Load(nest.update.array, nest.update.indices, nest.update.value.dtype)
    try:
        found = list(unify_operands(nest.intrinsic, written, nest.update.value))
    except Mismatch:
        return []
    patterns = nest.intrinsic.operands
    return [
        each
        for each in found
        if all(_ignores_other_axes(nest, *pair, flat) for pair in zip(patterns, each, strict=True))
    ]


def _ignores_other_axes(nest: TensorNest, wanted: Load, access: Load, flat: Flat) -> bool:
    """Whether an access does not depend on the axes that an operand does not have."""
    own = {axis.name for axis in wanted.indices if isinstance(axis, Var)}
    others = {loop.var for axis, loop in nest.loops.items() if axis not in own}
    ranges = {loop.var: const(loop.extent) for loop in nest.loops.values()}
    return not free_vars(resolve(flat(access), ranges)) & others


def _flat_operand(
    nest: TensorNest, wanted: Load, access: Load, flat: Flat, order: Callable[[Expr], Expr]
) -> lir.Operand:
    ranges = {loop.var: const(loop.extent) for loop in nest.loops.values()}
    index = resolve(flat(access), ranges)
    first = order(simplify(substitute(index, dict.fromkeys(ranges, ZERO))))
    strides = []
    for axis in wanted.indices:
        assert isinstance(axis, Var)
        try:
            stride = as_int(coefficient(index, nest.loops[axis.name].var))
        except NotAffine:
            stride = None
        if stride is None:
            raise BuildError("tensor operand without strides", f"`{access.buffer}` in block `{nest.update.block}`")
        strides.append(stride)
    apart = 1
    for axis, stride in list(zip(wanted.indices, strides, strict=True))[: -nest.intrinsic.dense_axes(wanted) - 1 : -1]:
        assert isinstance(axis, Var)
        if stride != apart:
            raise BuildError(
                "tensor operand not contiguous",
                f"`{access.buffer}` in block `{nest.update.block}` has a stride of {stride} along axis `{axis.name}` "
                f"of `{nest.intrinsic.name}`'s `{wanted.buffer}`, which takes {apart}. {nest.intrinsic.layout}",
            )
        apart *= nest.intrinsic.extent(axis.name)
    return lir.Operand(Load(access.buffer, (first,), access.type), tuple(strides))
