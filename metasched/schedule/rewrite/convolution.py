"""Finding the convolution in a sum of products: which variables are windows, and which operand is the filter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from metasched.dtypes import INDEX
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int, const, free_vars, substitute
from metasched.ir.integers.data import is_index_variable
from metasched.ir.integers.ranges import prove
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Const,
    Expr,
    IterKind,
    IterVar,
    Load,
    Reducer,
    Select,
    Var,
)
from metasched.schedule.context import Context
from metasched.schedule.rewrite.parts import tidy
from metasched.support.data_classes import dataclass

LEAST_WINDOW, MOST_WINDOW = 2, 7
_MOST_AXES = 2


@dataclass(frozen=True)
class WindowAxis:
    """An axis along which a window slides one element at a time.

    The data is read at `place`, a name that is new, for `at + offset`, where `at` is the spatial variable and `offset`
    is that of the window, of `window` values. `results` is the extent of `at`, a constant.
    """

    at: str
    offset: str
    place: str
    window: int
    results: int

    @property
    def places(self) -> int:
        """How many elements the windows go over."""
        return self.results + self.window - 1


@dataclass(frozen=True)
class ConvolutionOperand:
    """A factor of the products: an expression with one read, over some of the block's variables.

    `slots` are those dimensions of the buffer that do not depend on a window, as variables of their own with their
    extents, and `indices` is what the block reads them at. In `value` the slots are in their place, and so are the
    places or offsets of the windows.
    """

    value: Expr
    load: Load
    slots: tuple[IterVar, ...]
    indices: tuple[Expr, ...]
    # Where among the slots each of the axes stood in the buffer: so many of them come before it.
    order: tuple[int, ...]


@dataclass(frozen=True)
class Convolution:
    """`result += data * filter` over windows along `axes`, one or two of them, the outermost first.

    `data_first`: the block multiplies in this order.
    """

    axes: tuple[WindowAxis, ...]
    data: ConvolutionOperand
    filter: ConvolutionOperand
    data_first: bool


def find_convolution(ctx: Context, op: str, block: Block) -> Convolution:
    """The convolution that a block computes. Raises ScheduleError where it computes none."""
    _require_sum(op, block)
    factors = _factors(op, block)
    found = _axes(ctx, block, factors)
    if not found:
        raise ScheduleError(
            op,
            f"no window of {LEAST_WINDOW} to {MOST_WINDOW} elements slides over an operand of block `{block.name}`, "
            "one element at a time",
            (block.name,),
            "a convolution of stride 1 and dilation 1 reads one operand at `h + r`, the other at `r` and not at `h`",
        )
    axes, data, filters, first = found
    taken = [it.name for it in block.iters] + [axis.place for axis in axes]
    return Convolution(
        axes,
        _operand(ctx, op, block, data, {axis.place: n for n, axis in enumerate(axes)}, taken),
        _operand(ctx, op, block, filters, {axis.offset: n for n, axis in enumerate(axes)}, taken),
        first,
    )


def _require_sum(op: str, block: Block) -> None:
    name = block.name
    if block.reducer is not Reducer.SUM or block.init is None:
        what = "has its initialisation in a block already" if block.reducer is Reducer.SUM else "is not a sum"
        raise ScheduleError(op, f"block `{name}` {what}", (name,), "convolutions are sums that have an `init`")
    if not block.store.value.dtype.is_float or block.store.value.dtype.is_storage:
        raise ScheduleError(
            op,
            f"block `{name}` sums in {block.store.value.dtype}, not in f32 or f64",
            (name,),
            "the transforms have fractions such as 1/6; cast the operands: `sum[...](f32(X[...]) * f32(K[...]))`",
        )
    if not isinstance(block.init, Const) or block.init.value != 0:
        raise ScheduleError(
            op, f"the sum of block `{name}` does not start from 0", (name,), f"{op} before fuse_reduction_epilogue"
        )


def _factors(op: str, block: Block) -> tuple[Expr, Expr]:
    """The two factors. A condition under which a term is there goes with the operand that windows slide over."""
    value = tidy(block.store.value)
    present: Expr | None = None
    if isinstance(value, Select) and isinstance(value.otherwise, Const) and value.otherwise.value == 0:
        present, value = value.cond, value.then
    if not (isinstance(value, Binary) and value.op is BinOp.MUL):
        raise ScheduleError(
            op, f"block `{block.name}` does not sum products of two operands", (block.name,), "it is no convolution"
        )
    a, b = value.a, value.b
    for side in (a, b):
        reads = query.loads(side)
        if len(reads) != 1:
            raise ScheduleError(
                op,
                f"a factor of the products of block `{block.name}` has {len(reads)} reads, not one",
                (block.name,),
                "give what is multiplied a stage of its own",
            )
    if present is None:
        return a, b
    moving = [side for side in (a, b) if free_vars(side) >= _spatial_names(present, block)]
    if len(moving) != 1 or query.loads(present):
        raise ScheduleError(
            op,
            f"which terms block `{block.name}` has depends on more than its operands' places",
            (block.name,),
            "a condition may be on the places of one operand, as that of a padding is",
        )
    zero = Const(0.0, value.dtype)
    return tuple(Select(present, side, zero) if side is moving[0] else side for side in (a, b))  # type: ignore[return-value]


def _spatial_names(e: Expr, block: Block) -> frozenset[str]:
    return free_vars(e) & {it.name for it in block.iters if it.kind is IterKind.SPATIAL}


# --- windows ---------------------------------------------------------------------------------------------

_Found = tuple[tuple[WindowAxis, ...], Expr, Expr, bool]


def _axes(ctx: Context, block: Block, factors: tuple[Expr, Expr]) -> _Found | None:
    """The axes, the data over places, and the filter over offsets, and whether the data is the first factor."""
    best: _Found | None = None
    for first, (data, filters) in ((True, factors), (False, factors[::-1])):
        axes: list[WindowAxis] = []
        for it in reversed(block.iters):
            axis = _axis(ctx, block, it, data, filters)
            if axis is not None and len(axes) < _MOST_AXES:
                axes.insert(0, axis[0])
                data, filters = axis[1], axis[2]
        if axes and (best is None or len(axes) > len(best[0])):
            best = (tuple(axes), data, filters, first)
    return best


def _axis(ctx: Context, block: Block, at: IterVar, data: Expr, filters: Expr) -> tuple[WindowAxis, Expr, Expr] | None:
    """The axis of a spatial variable, where the data depends on its sum with another and the filter on the other."""
    results = as_int(at.extent)
    if at.kind is not IterKind.SPATIAL or results is None or results < 2:
        return None
    if at.name not in free_vars(data) or at.name in free_vars(filters):
        return None
    place = _place_name(ctx, block, at.name)
    for offset in block.iters:
        window = as_int(offset.extent)
        if offset.kind is not IterKind.REDUCE or window is None or not LEAST_WINDOW <= window <= MOST_WINDOW:
            continue
        turned: dict[str, Expr] = {offset.name: const(window - 1) - Var(offset.name)}
        for turn in ({}, turned):
            moved: dict[str, Expr] = {at.name: Var(place) - Var(offset.name)}
            seen = tidy(substitute(tidy(substitute(data, turn)), moved))
            if place in free_vars(seen) and offset.name not in free_vars(seen):
                axis = WindowAxis(at.name, offset.name, place, window, results)
                return axis, seen, tidy(substitute(filters, turn))
    return None


def _place_name(ctx: Context, block: Block, at: str) -> str:
    taken = {it.name for it in block.iters} | {s.name for s in ctx.func.scalars}
    name = f"{at}x"
    while name in taken:
        name += "_"
    return name


# --- operands --------------------------------------------------------------------------------------------


def _operand(
    ctx: Context, op: str, block: Block, value: Expr, windows: Mapping[str, int], taken: Iterable[str]
) -> ConvolutionOperand:
    """An operand with a slot for each dimension of its buffer that no window moves along."""
    (load,) = query.loads(value)
    buffer, known = ctx.func.buffer(load.buffer), {it.name: it.extent for it in block.iters}
    slots: list[IterVar] = []
    indices: list[Expr] = []
    order: dict[int, int] = {}
    inside: list[Expr] = []
    for dimension, index in enumerate(load.indices):
        used = free_vars(index)
        moving = used & windows.keys()
        if moving:
            if used - windows.keys():
                raise _mixed_variables_error(op, block, load, min(moving))
            for name in moving:
                order.setdefault(windows[name], len(slots))
            inside.append(index)
            continue
        if not used:
            inside.append(index)
            continue
        if is_index_variable(index) and index.name not in {slot.name for slot in slots}:
            name, extent = index.name, known[index.name]
        else:
            name, extent = _fresh_name(used, {*taken, *(s.name for s in slots)}), buffer.shape[dimension]
            _require_inside(op, block, load, index, extent)
        slots.append(IterVar(name, extent, IterKind.SPATIAL))
        indices.append(index)
        inside.append(Var(name))
    moved = _replace_read(value, load, replace(load, indices=tuple(inside)))
    left = free_vars(moved) - windows.keys() - {s.name for s in slots} - {s.name for s in ctx.func.scalars}
    if left:
        raise _mixed_variables_error(op, block, load, min(left))
    places = tuple(order.get(n, len(slots)) for n in sorted(windows.values()))
    return ConvolutionOperand(moved, load, tuple(slots), tuple(indices), places)


def _mixed_variables_error(op: str, block: Block, load: Load, name: str) -> ScheduleError:
    return ScheduleError(
        op,
        f"block `{block.name}` reads `{load.buffer}` at `{name}` and, in the same dimension or condition, at other "
        "variables",
        (block.name,),
        f"give `{load.buffer}`, or its padding, a stage of its own",
    )


def _fresh_name(used: Iterable[str], taken: set[str]) -> str:
    name = "_".join(sorted(used))
    while name in taken:
        name += "_"
    return name


def _require_inside(op: str, block: Block, load: Load, index: Expr, extent: Expr) -> None:
    """Raise unless an index is inside its dimension for all values of the block's variables."""
    ranges = {it.name: it.extent for it in block.iters}
    error = ScheduleError(
        op,
        f"block `{block.name}` reads `{load.buffer}` at places that may be outside of it",
        (block.name,),
        "give the padding a stage of its own",
    )
    if index.dtype is not INDEX or query.loads(index):
        raise error
    for cond in (index >= 0, Binary(BinOp.LT, index, extent)):
        if prove(cond, ranges) is not True:
            raise error


def _replace_read(e: Expr, old: Load, new: Load) -> Expr:
    if e == old:
        return new
    return e if isinstance(e, Load) else e.map(lambda child: _replace_read(child, old, new))


def at_place(operand: ConvolutionOperand, values: Mapping[str, Expr]) -> Expr:
    """The operand's value at places or offsets of the windows."""
    return tidy(substitute(operand.value, dict(values)))


def is_plain(operand: ConvolutionOperand) -> bool:
    """Whether it is a read, perhaps in another type, without a condition."""
    return not any(isinstance(node, Select) for node in operand.value.walk())
