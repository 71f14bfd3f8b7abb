"""winograd: compute a convolution through transforms that take fewer multiplications."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction

from metasched.dtypes import DType
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import const, simplify, substitute
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    IterVar,
    Load,
    Select,
    Store,
    Var,
)
from metasched.permissions import Permission
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, Number
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.buffer_copies import copy_after, copy_before
from metasched.schedule.rewrite.convolution import (
    LEAST_WINDOW,
    Convolution,
    ConvolutionOperand,
    WindowAxis,
    at_place,
    find_convolution,
    is_plain,
)
from metasched.schedule.rewrite.cook_toom import MOST_PRODUCTS, FastFilter, Matrix, fast_filter
from metasched.schedule.rewrite.loops import own_nest, require_shallow
from metasched.schedule.rewrite.nest import nest
from metasched.schedule.rewrite.parts import require_only_writer
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

OP = "winograd"


def _amplification(func: Func, block: str, tile: int) -> tuple[float, float]:
    """How much the transforms along both axes enlarge errors, by the 1-norm and by the 2-norm."""
    ctx = Context(func)
    axes = [fast_filter(tile, axis.window) for axis in find_convolution(ctx, OP, ctx.block(OP, block)).axes]
    return math.prod(axis.amplification(1) for axis in axes), math.prod(axis.amplification(2) for axis in axes)


@primitive(permission=Permission.WINOGRAD, amplification=_amplification)
def winograd(ctx: Context, block: BlockName, tile: Number) -> tuple[BlockName, ...]:
    """Compute a convolution in tiles of its result, from products of transformed tiles of its operands.

    A tile of m results of a window of r elements takes m + r - 1 products instead of m * r, along each of one or two
    axes (Winograd 1980; Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks", sections 3 and 4).
    Their rounding errors are larger, so callers allow it by `allow={"winograd"}`. The matrices are those of the method
    of Cook and Toom at the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity, by exact arithmetic.

    The block becomes a batch of products, one for each of the (m + r - 1)^2 elements of a tile. The last pass over its
    operands are the blocks `BLOCK.X.winograd`, which depend on one operand each, so that the filter's is run ahead of
    calls where it is a `const` argument; the last pass over its products is `BLOCK.inverse`. With two axes, a pass
    along the first comes before each, `BLOCK.X.rows` and `BLOCK.rows`. Where the data has a condition, such as padding,
    or tiles go beyond it, the first step is a copy with zeros there, `BLOCK.X.pad`. Returns the last passes: over the
    filter, over the data, over the products; `get_producers` finds the others.

    Args:
        block: the convolution: a sum of products of two operands, of which one is read at `h + r` and the other at `r`,
            for a spatial variable `h` and a variable of the sum `r`. Of more than two such axes, the last two count.
        tile: m, at least 2. It is no random variable, as the steps depend on it; `choose` among some.

    Requires:
        The block's loops are untransformed, and it sums f32 or f64 from 0. Windows have 2 to 7 elements, and
        m + r - 1 is at most 8. Each operand has one read, whose index moves with the window in dimensions of its own.

    Rewrite:
        for h, r in grid(8, 3):                      for r_.. in 4:
            conv: Y[h] += X[h + r] * K[r]    ->          conv.K.winograd: U[t] = ... K ...
                                                     for h_.., t_.. in grid(4, 4):
                                                         conv.X.winograd: V[t, h] = ... X[2*h], X[2*h + 1] ...
                                                     for t, h in grid(4, 4):
                                                         conv: M[t, h] += V[t, h] * U[t]
                                                     for h_.. in 8:
                                                         conv.inverse: Y[h] = ... M[0, h//2], M[1, h//2] ...
    """
    target = ctx.block(OP, block)
    loops = own_nest(ctx, OP, target)
    require_only_writer(ctx, OP, target)
    found = find_convolution(ctx, OP, target)
    _require_tile(target, found, tile)
    require_shallow(ctx, OP, target, len(found.axes))
    return _Winograd(ctx, target, found, tile).rewrite(loops)


def _require_tile(block: Block, found: Convolution, tile: int) -> None:
    widest = max(axis.window for axis in found.axes)
    if tile < LEAST_WINDOW or tile + widest - 1 > MOST_PRODUCTS:
        raise ScheduleError(
            OP,
            f"tiles of {tile} results of block `{block.name}`, whose window has {widest} elements",
            (block.name,),
            f"a tile has 2 to {MOST_PRODUCTS + 1 - widest} results",
        )


@dataclass(frozen=True)
class _Winograd:
    """A convolution on its way through tiles of `tile` results.

    `digits` are the names of the variables over the elements of a tile, one for each axis.
    """

    ctx: Context
    block: Block
    found: Convolution
    tile: int
    taken: set[str] = field(default_factory=set)

    @property
    def axes(self) -> tuple[WindowAxis, ...]:
        return self.found.axes

    @cached_property
    def filters(self) -> tuple[FastFilter, ...]:
        """The matrices along each axis."""
        return tuple(fast_filter(self.tile, axis.window) for axis in self.axes)

    @cached_property
    def digits(self) -> tuple[IterVar, ...]:
        """The variables over the products of a tile, one for each axis."""
        names = {it.name for operand in (self.found.data, self.found.filter) for it in operand.slots}
        names |= {it.name for it in self.block.iters} | {s.name for s in self.ctx.func.scalars}
        names |= {axis.place for axis in self.axes}
        out = []
        for axis, matrices in zip(self.axes, self.filters, strict=True):
            name = f"{axis.at}t"
            while name in names:
                name += "_"
            names.add(name)
            out.append(_spatial_variable(name, const(matrices.products)))
        return tuple(out)

    @property
    def dtype(self) -> DType:
        return self.block.store.value.dtype

    def tiles(self, axis: WindowAxis) -> int:
        return -(-axis.results // self.tile)

    def covered_extent(self, axis: WindowAxis) -> int:
        """How many elements all tiles go over."""
        return self.tiles(axis) * self.tile + axis.window - 1

    # --- steps

    def rewrite(self, loops: tuple[For, ...]) -> tuple[str, ...]:
        """Insert the transforms and make the block the batch of products. Returns the names of the last passes."""
        weights = self.transformed_filter()
        data = self.transformed_data()
        inverse = self.inverse()
        self.products(loops, weights, data, inverse)
        return weights.block, data.block, inverse.last

    def transformed_filter(self) -> _Copy:
        """`G g G^T`: the filter's slots, an element for each product of a tile."""
        operand = self.found.filter
        matrices = [f.filter for f in self.filters]
        if len(self.axes) == 1:
            at = [at_place(operand, {self.axes[0].offset: const(k)}) for k in range(self.axes[0].window)]
            return self.copy(
                operand, "winograd", [*self.digits, *operand.slots], self.combine_elements(0, matrices[0], at)
            )
        first, second = self.axes
        column = _spatial_variable(second.offset, const(second.window))
        at = [at_place(operand, {first.offset: const(k)}) for k in range(first.window)]
        rows = self.copy(
            operand, "rows", [self.digits[0], column, *operand.slots], self.combine_elements(0, matrices[0], at)
        )
        at = [rows.at({column.name: const(k)}) for k in range(second.window)]
        return self.copy(operand, "winograd", [*self.digits, *operand.slots], self.combine_elements(1, matrices[1], at))

    def transformed_data(self) -> _Copy:
        """`B^T d B`: the data's slots with tiles in the place of windows, an element for each product of a tile."""
        operand = self.found.data
        source = self.padded_data()
        matrices = [f.data for f in self.filters]
        tiles = [_spatial_variable(axis.at, const(self.tiles(axis))) for axis in self.axes]
        if len(self.axes) == 1:
            at = [self.tile_element(source, 0, k) for k in range(self.filters[0].products)]
            return self.copy(
                operand,
                "winograd",
                [*self.digits, *_slot_variables(operand, tiles)],
                self.combine_elements(0, matrices[0], at),
            )
        second = self.axes[1]
        columns = [tiles[0], _spatial_variable(second.place, const(self.covered_extent(second)))]
        at = [self.tile_element(source, 0, k) for k in range(self.filters[0].products)]
        rows = self.copy(
            operand,
            "rows",
            [self.digits[0], *_slot_variables(operand, columns)],
            self.combine_elements(0, matrices[0], at),
        )
        at = [self.tile_element(rows.at({}), 1, k) for k in range(self.filters[1].products)]
        return self.copy(
            operand,
            "winograd",
            [*self.digits, *_slot_variables(operand, tiles)],
            self.combine_elements(1, matrices[1], at),
        )

    def tile_element(self, source: Expr, axis: int, element: int) -> Expr:
        """Element number `element` of a tile, of what is over places of the axis."""
        place = simplify(Var(self.axes[axis].at) * self.tile + element)
        return _tidy_indices(substitute(source, {self.axes[axis].place: place}))

    def padded_data(self) -> Expr:
        """The data over places that all tiles go over: itself, or a copy with zeros in the padding and beyond."""
        operand = self.found.data
        beyond = [
            Binary(BinOp.LT, Var(axis.place), const(axis.places))
            for axis in self.axes
            if self.covered_extent(axis) > axis.places
        ]
        if not beyond and is_plain(operand):
            return operand.value
        value = operand.value
        if beyond:
            cond = beyond[0] if len(beyond) == 1 else Binary(BinOp.AND, beyond[0], beyond[1])
            value = _add_condition(cond, value)
        places = [_spatial_variable(axis.place, const(self.covered_extent(axis))) for axis in self.axes]
        return self.copy(operand, "pad", _slot_variables(operand, places), value).at({})

    def inverse(self) -> _Inverse:
        """`A^T m A`: the block's result from the products, whose buffer is new."""
        ctx, block = self.ctx, self.block
        spatial = {it.name: it for it in block.iters if it.kind is IterKind.SPATIAL}
        shown = [i for i in block.store.indices if isinstance(i, Var)]
        results = [spatial[i.name] for i in shown]
        tiled = {axis.at: const(self.tiles(axis)) for axis in self.axes}
        extents = [tiled.get(it.name, it.extent) for it in results]
        indices: tuple[Expr, ...] = (*(Var(d.name) for d in self.digits), *shown)
        products = Buffer(
            ctx.fresh(f"{block.store.buffer}_products"), (*(d.extent for d in self.digits), *extents), self.dtype
        )
        matrices, source = [f.result for f in self.filters], Load(products.name, indices, self.dtype)
        last = len(self.axes) - 1
        name = ctx.fresh(f"{block.name}.inverse")
        if not last:
            at = [self.tile_product(source, 0, k) for k in range(self.filters[0].products)]
            copies = [(name, results, block.store, self.combine_results(0, matrices[0], at), products)]
        else:
            second = replace(spatial[self.axes[1].at], extent=tiled[self.axes[1].at])
            partial = [self.digits[1], *(second if it.name == second.name else it for it in results)]
            at = [self.tile_product(source, 0, k) for k in range(self.filters[0].products)]
            rows = Buffer(ctx.fresh(f"{block.store.buffer}_rows"), tuple(it.extent for it in partial), self.dtype)
            over: tuple[Expr, ...] = tuple(Var(it.name) for it in partial)
            passed = Store(rows.name, over, self.combine_results(0, matrices[0], at))
            read = Load(rows.name, over, self.dtype)
            at = [self.tile_product(read, 1, k) for k in range(self.filters[1].products)]
            value = self.combine_results(1, matrices[1], at)
            copies = [
                (name, results, block.store, value, rows),
                (ctx.fresh(f"{block.name}.rows"), partial, passed, passed.value, products),
            ]
        return _Inverse(name, products, indices, tuple(copies))

    def tile_product(self, source: Expr, axis: int, element: int) -> Expr:
        """Product number `element` of the tile in which a result is."""
        at = self.axes[axis].at
        values = {self.digits[axis].name: const(element), at: Binary(BinOp.FLOORDIV, Var(at), const(self.tile))}
        return substitute(source, values)

    def products(self, loops: Sequence[For], weights: _Copy, data: _Copy, inverse: _Inverse) -> None:
        """Make the block the batch of products, and add what follows it."""
        ctx, old = self.ctx, self.block
        offsets = {axis.offset for axis in self.axes}
        tiles = {axis.at: const(self.tiles(axis)) for axis in self.axes}
        digits = tuple(Var(d.name) for d in self.digits)
        read_weights = weights.read((*digits, *self.found.filter.indices))
        over = _slot_variables(self.found.data, [_spatial_variable(axis.at, tiles[axis.at]) for axis in self.axes])
        known = dict(zip((s.name for s in self.found.data.slots), self.found.data.indices, strict=True))
        read_data = data.read((*digits, *(known.get(it.name, Var(it.name)) for it in over)))
        factors = (read_data, read_weights) if self.found.data_first else (read_weights, read_data)
        iters = [replace(it, extent=tiles.get(it.name, it.extent)) for it in old.iters if it.name not in offsets]
        still = any(it.kind is IterKind.REDUCE for it in iters)
        new = replace(
            old,
            iters=(*self.digits, *iters),
            reducer=old.reducer if still else None,
            init=old.init if still else None,
            store=Store(inverse.products.name, inverse.indices, Binary(BinOp.MUL, *factors)),
            annotations=(),
        )
        ctx.taken |= query.names(ctx.func)
        ctx.func = query.replace_stmt(ctx.func, loops[0], nest(ctx, new, {}))
        for name, domain, store, value, source in inverse.copies:
            at = tuple(Var(it.name) for it in domain)
            copy = Block(name, tuple(domain), at, (), replace(store, value=value))
            copy_after(ctx, old.name, copy, source)

    # --- parts

    def copy(self, operand: ConvolutionOperand, what: str, domain: Sequence[IterVar], value: Expr) -> _Copy:
        """Insert a block before the convolution that writes a new buffer over `domain`."""
        ctx, source = self.ctx, operand.load.buffer
        target = Buffer(ctx.fresh(f"{source}_{what}"), tuple(it.extent for it in domain), self.dtype)
        at = tuple(Var(it.name) for it in domain)
        name = ctx.fresh(f"{self.block.name}.{source}.{what}")
        copy_before(ctx, self.block.name, Block(name, tuple(domain), at, (), Store(target.name, at, value)), target)
        return _Copy(name, target, tuple(domain))

    def combine_elements(self, axis: int, matrix: Matrix, elements: Sequence[Expr]) -> Expr:
        """The row of `matrix @ elements` that the digit of an axis says."""
        return _choose_value(Var(self.digits[axis].name), [_combination(row, elements) for row in matrix])

    def combine_results(self, axis: int, matrix: Matrix, elements: Sequence[Expr]) -> Expr:
        """The row of `matrix @ elements` that a result's place in its tile says."""
        place = Binary(BinOp.MOD, Var(self.axes[axis].at), const(self.tile))
        return _choose_value(place, [_combination(row, elements) for row in matrix])


@dataclass(frozen=True)
class _Copy:
    """A block that writes a new buffer over a domain."""

    block: str
    buffer: Buffer
    domain: tuple[IterVar, ...]

    def read(self, indices: tuple[Expr, ...]) -> Load:
        return Load(self.buffer.name, indices, self.buffer.dtype)

    def at(self, values: Mapping[str, Expr]) -> Load:
        """The element at its own variables, but for some."""
        return self.read(tuple(values.get(it.name, Var(it.name)) for it in self.domain))


@dataclass(frozen=True)
class _Inverse:
    """The new buffer of products, what the block writes it at, and the passes over it, the last first.

    A pass is a block's name, its domain, what it writes, the value, and the new buffer that it reads.
    """

    last: str
    products: Buffer
    indices: tuple[Expr, ...]
    copies: tuple[tuple[str, Sequence[IterVar], Store, Expr, Buffer], ...]


def _spatial_variable(name: str, extent: Expr) -> IterVar:
    return IterVar(name, extent, IterKind.SPATIAL)


def _slot_variables(operand: ConvolutionOperand, windows: Sequence[IterVar]) -> list[IterVar]:
    """The slots of an operand, with one variable for each axis where the axis was."""
    out: list[IterVar] = []
    for n, slot in enumerate((*operand.slots, None)):
        out += [window for window, before in zip(windows, operand.order, strict=True) if before == n]
        if slot is not None:
            out.append(slot)
    return out


def _add_condition(cond: Expr, value: Expr) -> Expr:
    """The value under one more condition, in one with that which it has."""
    if isinstance(value, Select) and isinstance(value.otherwise, Const) and value.otherwise.value == 0:
        return Select(Binary(BinOp.AND, value.cond, cond), value.then, value.otherwise)
    return Select(cond, value, Const(0.0, value.dtype))


def _tidy_indices(e: Expr) -> Expr:
    if isinstance(e, Load):
        return replace(e, indices=tuple(map(simplify, e.indices)))
    return e.map(_tidy_indices)


def _choose_value(digit: Expr, values: Sequence[Expr]) -> Expr:
    """`values[digit]`."""
    out = values[-1]
    for n, value in reversed(list(enumerate(values[:-1]))):
        out = Select(Binary(BinOp.EQ, digit, const(n)), value, out)
    return out


def _combination(row: Sequence[Fraction], elements: Sequence[Expr]) -> Expr:
    """`sum(row * elements)` without the terms whose coefficient is 0."""
    out: Expr | None = None
    for factor, element in sorted(zip(row, elements, strict=True), key=lambda pair: pair[0] <= 0):
        if not factor:
            continue
        size = abs(factor)
        term = element if size == 1 else element * float(size)
        out = _add_term(out, term, factor < 0)
    assert out is not None
    return out


def _add_term(out: Expr | None, term: Expr, negative: bool) -> Expr:
    if out is None:
        return -term if negative else term
    return out - term if negative else out + term
