"""transform_block_layout: map a block's iteration variables to new ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from metasched.dtypes import INDEX
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.index_map import image_shape, inverse, resolve
from metasched.ir.integers.affine import ZERO, NotAffine, free_vars, simplify, substitute
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.ranges import bounds, prove
from metasched.ir.nodes import Binary, BinOp, Block, Expr, IndexMap, IterKind, IterVar, Load, Store, Var
from metasched.schedule.context import Context
from metasched.schedule.index_maps import SizedMap, read_index_map
from metasched.schedule.kinds import BlockName, IndexMapText, IntExpr, LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import own_nest
from metasched.schedule.rewrite.nest import iter_names, iter_value, nest, simplify_sides
from metasched.schedule.rewrite.parts import (
    is_output,
    loops_of,
    replace_loads,
    replace_temp,
    require_only_writer,
    variables,
)
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing

OP = "transform_block_layout"


@primitive
def transform_block_layout(
    ctx: Context, block: BlockName, index_map: IndexMapText, *sizes: IntExpr
) -> tuple[LoopName, ...]:
    """Replace a block's iteration variables by the outputs of an index map. Returns the new loops.

    The block gets a nest of new serial loops, one for each new variable, spatial ones outermost. If variables that
    index the block's buffer change, its dimensions and its readers' indices change accordingly. A reduction that tiles
    do not divide evenly gets a guard.

    Sizes need not divide anything evenly. So with sizes the new loops have guards, the block and its buffer keep their
    variables and dimensions, and the buffer gets the layout of the new variables in memory.

    Args:
        block: the block.
        index_map: from the block's iteration variables in order to the new ones, "n, h, w, c -> n*56 + h, w, c", or a
            function of as many indices.
        sizes: the values of names that the text divides by, in the order in which they appear, integers or integer
            random variables: "i, j -> j//t, i, j%t". A function uses random variables as they are.

    Requires:
        The block's loops are untransformed, one for each variable and around nothing else, and no other block writes a
        part of its result. The map is a bijection, and does not mix spatial and reduction variables. If variables that
        index the buffer change, the buffer is intermediate, has no layout and no other writer, and tiles divide its
        dimensions evenly.

    Rewrite:
        for i, j in grid(8, 16):                     for i_j in 128:
            twice: B[i, j] = A[i, j] * 2      ->         twice: B[i_j] = A[i_j // 16, i_j % 16] * 2
        for i, j in grid(8, 16):                     for i, j in grid(8, 16):
            neg: C[i, j] = -B[i, j]                      neg: C[i, j] = -B[i*16 + j]
    """
    target = ctx.block(OP, block)
    loops = own_nest(ctx, OP, target)
    if target.index is not None:
        raise ScheduleError(
            OP,
            f"block `{block}` finds a position, and which of equal ones comes first would change",
            (block,),
            "leave its iteration variables as they are",
        )
    parts = query.parts_of(ctx.func, target)
    if len(parts) > 1:
        others = (part.name for part in parts if part.name != target.name)
        raise ScheduleError(
            OP,
            f"blocks {listing([target.name, *others])} write parts of one result",
            (block,),
            f"{OP} before loop_partition",
        )
    read = read_index_map(ctx, OP, index_map, sizes, len(target.iters), f"block `{block}`")
    mapped = _Mapped(ctx, target, read.index_map, index_map, read)
    moved, guards = mapped.block(), mapped.guards()
    mapped.move_buffer()
    outermost = query.find_loop(ctx.func, loops[0].var) if loops else query.find_block(ctx.func, block)
    ctx.taken |= query.names(ctx.func)
    new = nest(ctx, moved, {}, guards)
    ctx.func = query.replace_stmt(ctx.func, outermost, query.map_blocks(new, mapped.bound) if sizes else new)
    return loops_of(ctx.func, block)


@dataclass(frozen=True)
class _Mapped:
    """A block and the map that makes its new iteration variables.

    Everything is derived for sizes that are variables, and then gets their values: names, loops and guards are the same
    for all of them.
    """

    ctx: Context
    old: Block
    index_map: IndexMap
    text: str
    sizes: SizedMap

    def _refuse(self, why: str, hint: str) -> ScheduleError:
        return ScheduleError(OP, f'"{self.text}" {why}', (self.old.name,), hint)

    def _gaps(self) -> ScheduleError:
        return self._refuse(
            f"leaves gaps between the instances of `{self.old.name}`",
            "let each coefficient be the number of values of what is below it",
        )

    @property
    def _parameter_values(self) -> Mapping[str, Expr]:
        """The block's variables by the map's parameter names."""
        return {name: Var(it.name) for name, it in zip(self.index_map.names, self.old.iters, strict=True)}

    @cached_property
    def outputs(self) -> tuple[Expr, ...]:
        """The new variables in terms of the block's own."""
        return tuple(simplify(substitute(e, self._parameter_values)) for e in self.index_map.outputs)

    @cached_property
    def iters(self) -> tuple[IterVar, ...]:
        """The new variables."""
        shape = tuple(it.extent for it in self.old.iters)
        try:
            extents = image_shape(self.index_map, shape)
        except NotAffine as error:
            raise self._refuse(f"leaves the domain of `{self.old.name}`: {error}", "start every index at 0") from None
        written = [substitute(e, self._parameter_values) for e in self.index_map.outputs]
        names = _names(self.ctx, written, {it.name for it in self.old.iters})
        return tuple(
            IterVar(name, extent, self._kind(e)) for name, extent, e in zip(names, extents, self.outputs, strict=True)
        )

    def _kind(self, e: Expr) -> IterKind:
        kinds = {it.kind for it in self.old.iters if it.name in free_vars(e)}
        if len(kinds) > 1:
            raise self._refuse(
                f"mixes elements and reduction of `{self.old.name}`", "keep variables of the two kinds apart"
            )
        return kinds.pop() if kinds else IterKind.SPATIAL

    @cached_property
    def ranges(self) -> Mapping[str, Expr]:
        return {it.name: it.extent for it in self.iters}

    @cached_property
    def values(self) -> Mapping[str, Expr]:
        """The old variables in terms of the new ones."""
        names = [it.name for it in self.iters]
        shape = tuple(it.extent for it in self.old.iters)
        own = IndexMap(tuple(it.name for it in self.old.iters), self.outputs)
        found = inverse(own, shape, names)
        lost = [it.name for it in self.old.iters if it.name not in found]
        if lost:
            raise self._refuse(
                f"does not keep the instances of `{self.old.name}` apart: `{lost[0]}` does not follow from it",
                "use every part of every index once, such as j//16 and j%16",
            )
        for name, e in zip(names, self.outputs, strict=True):
            if resolve(substitute(e, found), self.ranges) != resolve(Var(name), self.ranges):
                raise self._gaps()
        bare = {e.name: Var(name) for e, name in zip(self.outputs, names, strict=True) if isinstance(e, Var)}
        return {name: bare[name] if name in bare else resolve(e, self.ranges) for name, e in found.items()}

    def block(self) -> Block:
        """The block over the new variables; its bindings are placeholders, for `nest`."""
        store = Store(self._target, self._indices, self._substitute_variables(self.old.store.value))
        init = None if self.old.init is None else self._substitute_variables(self.old.init)
        bindings = tuple(Var(it.name) for it in self.iters)
        iters = tuple(replace(it, extent=self._substitute_sizes(it.extent)) for it in self.iters)
        return replace(self.old, iters=iters, bindings=bindings, guards=(), store=store, init=init)

    def bound(self, moved: Block) -> Block:
        """The block over its own variables, bound to the loops of the new ones."""
        over = {it.name: binding for it, binding in zip(moved.iters, moved.bindings, strict=True)}
        values = [simplify(substitute(self._substitute_sizes(self.values[it.name]), over)) for it in self.old.iters]
        return replace(self.old, bindings=tuple(values), guards=moved.guards)

    def guards(self) -> list[Expr]:
        """Conditions that keep the old variables in their domains, where the new variables' domains do not imply it."""
        over_loops: dict[str, Expr] = {it.name: iter_value(it.name) for it in self.iters}
        out = []
        for it in self.old.iters:
            inside = Binary(BinOp.LT, self.values[it.name], it.extent)
            if prove(inside, self.ranges) is not True:
                if len(free_vars(self.values[it.name])) == 1:
                    raise self._gaps()
                out.append(simplify_sides(substitute(self._substitute_sizes(inside), over_loops)))
        return out

    def _substitute_variables(self, e: Expr) -> Expr:
        return _simplify_indices(substitute(e, self.values), self.ranges)

    def _substitute_sizes(self, e: Expr) -> Expr:
        """An expression with the values of the sizes in it."""
        if not self.sizes.values:
            return e
        return self.sizes.valued(e) if e.dtype is INDEX and not depends_on_data(e) else e.map(self._substitute_sizes)

    # --- the buffer that is written

    @property
    def _target(self) -> str:
        return self.old.store.buffer

    @cached_property
    def _keeps_dimensions(self) -> bool:
        """Whether the buffer keeps its dimensions: its variables are renamed at most."""
        values = [self.values[_name(i)] for i in self.old.store.indices if i != ZERO]
        return all(isinstance(e, Var) or e == ZERO for e in values)

    @property
    def _spatial_variables(self) -> list[IterVar]:
        return [it for it in self.iters if it.kind is IterKind.SPATIAL]

    @property
    def _indices(self) -> tuple[Expr, ...]:
        if self._keeps_dimensions:
            return tuple(i if i == ZERO else self.values[_name(i)] for i in self.old.store.indices)
        return tuple(Var(it.name) for it in self._spatial_variables)

    def move_buffer(self) -> None:
        """Give the buffer the dimensions of the new variables, and adapt its readers' indices."""
        if self._keeps_dimensions:
            return
        ctx, name = self.ctx, self._target
        if is_output(ctx.func, name):
            raise ScheduleError(
                OP,
                f"block `{self.old.name}` writes the output `{name}`, whose dimensions are the caller's",
                (self.old.name,),
                "reindex the output first, or transform only the reduction",
            )
        require_only_writer(ctx, OP, self.old)
        buffer = ctx.func.buffer(name)
        if buffer.layout is not None or buffer.alignments or buffer.roll is not None:
            raise ScheduleError(
                OP, f"`{name}` has a layout in memory already", (self.old.name,), f"{OP} before steps on its storage"
            )
        if self.sizes.values:
            ctx.func = replace_temp(ctx.func, replace(buffer, layout=self._layout()))
            return
        self._require_whole(name)
        body = query.map_blocks(ctx.func.body, lambda b: b if b.name == self.old.name else self._rewrite_reader(b))
        shape = tuple(it.extent for it in self._spatial_variables)
        ctx.func = replace_temp(replace(ctx.func, body=body), replace(buffer, shape=shape))

    def _layout(self) -> IndexMap:
        """The buffer's dimensions to the new spatial variables: what is not written is not among its elements."""
        known: dict[str, Expr] = {it.name: ZERO for it in self.old.iters}
        names = tuple(f"d{n}" if i == ZERO else _name(i) for n, i in enumerate(self.old.store.indices))
        known |= {name: Var(name) for name in names}
        places = [e for e, it in zip(self.outputs, self.iters, strict=True) if it.kind is IterKind.SPATIAL]
        return IndexMap(names, tuple(self._substitute_sizes(simplify(substitute(e, known))) for e in places))

    def _require_whole(self, buffer: str) -> None:
        """Raise where elements of the new buffer would stay unwritten, as a copy of the buffer would read them."""
        error = self._refuse(
            f"leaves elements of `{buffer}` unwritten", "choose tiles that divide extents; pad_einsum makes them do so"
        )
        for it in self.old.iters:
            if it.kind is IterKind.SPATIAL:
                last = bounds(self.values[it.name], self.ranges).hi
                self.ctx.require(Binary(BinOp.LT, last, it.extent), error)

    def _rewrite_reader(self, reader: Block) -> Block:
        if self._target not in query.reads(reader):
            return reader
        ranges = {it.name: it.extent for it in reader.iters}
        dtype = self.ctx.func.buffer(self._target).dtype

        def at(indices: tuple[Expr, ...]) -> Expr:
            known: dict[str, Expr] = {it.name: ZERO for it in self.old.iters}
            known |= {_name(i): x for i, x in zip(self.old.store.indices, indices, strict=True) if i != ZERO}
            places = [e for e, it in zip(self.outputs, self.iters, strict=True) if it.kind is IterKind.SPATIAL]
            return Load(self._target, tuple(_index(substitute(e, known), ranges) for e in places), dtype)

        stores = [replace(s, value=replace_loads(s.value, self._target, at)) for s in reader.stores]
        return replace(reader, store=stores[0], index=stores[1] if len(stores) > 1 else None)


def _name(index: Expr) -> str:
    assert isinstance(index, Var)
    return index.name


def _names(ctx: Context, outputs: Sequence[Expr], known: Collection[str]) -> list[str]:
    """Names for the new variables: the old name if unchanged, else the names of the variables that it is computed
    from."""
    wanted = ["_".join(name for name in variables(e) if name in known) or "unit" for e in outputs]
    names: list[str] = []
    for e, name in zip(outputs, wanted, strict=True):
        if wanted.count(name) > 1 and not isinstance(e, Var):
            name = f"{name}_{len([n for n in names if n.startswith(f'{name}_')])}"
        names += iter_names(ctx, [name], names)
    return names


def _simplify_indices(e: Expr, ranges: Mapping[str, Expr]) -> Expr:
    """An expression with its index arithmetic simplified."""
    if e.dtype is INDEX:
        return _index(e, ranges)
    return e.map(lambda child: _simplify_indices(child, ranges))


def _index(e: Expr, ranges: Mapping[str, Expr]) -> Expr:
    if depends_on_data(e):
        return e.map(lambda child: _simplify_indices(child, ranges))
    return resolve(e, ranges)
