"""Loads and stores.

A vector access is a plain load or store where neighbouring lanes are
neighbours in memory, one scalar where all lanes agree, and a gather or scatter otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metasched.compiler.cpu.emit.accesses.addresses import Addresses
from metasched.compiler.cpu.emit.accesses.lane_conditions import (
    Terms,
    is_of_lane,
    lanes_before_end,
    running_lanes,
    substitute_lanes,
    sum_of_terms,
)
from metasched.compiler.cpu.emit.accesses.shuffled_loads import (
    Piece,
    Runs,
    blend_elements,
    find_pieces,
    find_runs,
    find_shared_elements,
    find_span,
    find_splats,
    join_splats,
    lane_range_mask,
    shuffle_runs,
)
from metasched.compiler.cpu.emit.accesses.transposed_loads import find_lane_units, join_runs, run_length, transpose_rows
from metasched.compiler.cpu.emit.scope import ArrayPointer, Lane
from metasched.compiler.cpu.emit.text import INLINE, Place
from metasched.compiler.cpu.emit.types import SSAValue, constant, lane_numbers, memory_text, splat_text, suffix
from metasched.compiler.lir import Array, ArrayKind
from metasched.dtypes import INDEX, DType
from metasched.ir.integers.linear import Linear
from metasched.ir.nodes import BinOp, Expr
from metasched.target import CACHE_LINE

# Loads of inputs that are moved out of one loop: more would only be spilled.
_MOST_HOISTED_LOADS = 12
# The share of the vector registers that values of one array in memory are kept in for the next use: one used later is
# cheaper to read again than to spill.
_REMEMBERED_PER_REGISTER = 0.5
# Values of a transposition that are kept: those of one strip of lanes, in all iterations of the largest tiles.
_MOST_TRANSPOSED_VALUES = 256

# What an offset of 32 bits may be.
_MOST_SHORT_OFFSET = 2**31 - 1
# What LLVM calls the locality of a prefetch is 3 for the first cache, 2 for the second.
_LOCALITY_BASE = 4
_WIDEST_VECTOR_BYTES = 64  # bytes of the widest vectors: a broadcast fills one
_LEAST_STREAM_BYTES = 16  # the smallest store that goes past the caches


class Memory(Addresses):
    """Emits loads and stores. Subclasses know how to compute an atom of an index."""

    def short_atom(self, atom: Expr) -> SSAValue:
        """An atom in 32 bits, where these are known to hold it."""
        raise NotImplementedError

    # --- loads ---

    def load(self, array: str, index: Expr) -> SSAValue:
        """`array[index]`, a scalar where all lanes read one element."""
        storage = self.scope.arrays[array]
        form = self.scope.indices.form(index)
        shared, step, varying = self.split_lane(form)
        if varying or step not in (0, 1):
            return self._load_transposed(storage, index) or self._load_scattered(storage, form)
        safe = self.in_bounds(storage, form)
        if step == 0:
            return self._scalar_load(storage, shared, safe=safe)
        return self._vector_load(storage, shared, safe=safe)

    def _register_value(self, raw: SSAValue, dtype: DType) -> SSAValue:
        if not dtype.is_bool:
            return raw
        zero = constant(0, DType.U8, raw.width)
        return SSAValue(self.text.emit_pure(f"icmp ne {raw.typed}, {zero.text}"), dtype, raw.width)

    def _memory_value(self, value: SSAValue) -> SSAValue:
        if not value.dtype.is_bool:
            return value
        return SSAValue(
            self.text.emit_pure(f"zext {value.typed} to {memory_text(DType.BOOL, value.width)}"), DType.U8, value.width
        )

    def _scalar_load(self, storage: ArrayPointer, form: Linear, *, safe: bool) -> SSAValue:
        if not safe and (self.scope.guards):
            return self._load_or_first(storage, form)
        return self._load_once(storage, form, 0, 0, safe=safe)

    def _load_or_first(self, storage: ArrayPointer, form: Linear) -> SSAValue:
        """A load under a condition: where that is false, the first element is read instead, and never used."""
        predicate = self.scope.predicate()
        assert predicate is not None
        place = self.arith.select(predicate, self.index(form), constant(0, INDEX))
        dtype = storage.array.dtype
        address = self.text.emit_pure(f"getelementptr {memory_text(dtype)}, ptr {storage.pointer}, {place.typed}")
        raw = self.text.emit_fresh(f"load {memory_text(dtype)}, ptr {address}, align {dtype.bytes}")
        return self._register_value(SSAValue(raw, _storage_type(dtype)), dtype)

    def _vector_load(self, storage: ArrayPointer, form: Linear, *, safe: bool) -> SSAValue:
        lane = self.scope.lane
        assert lane is not None
        if (not safe and (lane.mask is not None or self.scope.guards)) or _may_be_unwritten(storage.array, lane):
            return self._masked_load(storage, form)
        return self._load_once(storage, form, lane.width, lane.width, safe=safe)

    def _load_once(self, storage: ArrayPointer, form: Linear, width: int, read: int, *, safe: bool) -> SSAValue:
        """A load of `read` elements as a vector of `width`, or of a scalar; one that is known already is used again."""
        array = storage.array
        depth = self.scope.depth(form)
        if depth == INLINE:
            # What the index reads may have been written since.
            return self._emit_load(storage, form, width, read)
        place: Place = (form.terms, width, read, form.const % max(read, 1))
        found = self.text.known.find(array.name, place, form.const)
        if found is not None:
            return found
        if safe and array.kind is ArrayKind.INPUT and depth < self.text.depth:
            level = self.text.levels[depth]
            found = level.known.find(array.name, place, form.const)
            if found is None and level.hoisted < _MOST_HOISTED_LOADS:
                level.hoisted += 1
                with self.text.emit_at(depth):
                    found = self._emit_load(storage, form, width, read)
                level.known.record_load(array.name, place, form.const, found, _MOST_HOISTED_LOADS)
        if found is None:
            if (array.name, place, form.const) in self.text.known.dropped:
                # LLVM would keep the value from one read to the other, and spill what it has no register for.
                self.text.barrier()
            found = self._emit_load(storage, form, width, read)
        self.text.known.record_load(array.name, place, form.const, found, self._most_remembered(storage))
        return found

    def _most_remembered(self, storage: ArrayPointer) -> int:
        if storage.array.kind is ArrayKind.REGISTER:
            return storage.array.size
        return int(_REMEMBERED_PER_REGISTER * self.arith.native.registers)

    def load_rows(self, array: str, index: Expr, count: int, stride: int) -> SSAValue:
        """Lanes of `count` rows, `stride` elements apart, side by side: the first of each row, then the second, ...

        What is known already is used again: neighbouring windows share rows of pixels.
        """
        lane, storage = self.scope.lane, self.scope.arrays[array]
        assert lane is not None
        form = self.split_lane(self.scope.indices.form(index))[0]
        place: Place = ("rows", form.terms, lane.width, count, stride)
        found = self.text.known.find(array, place, form.const)
        if found is not None:
            return found
        if (array, place, form.const) in self.text.known.dropped:
            self.text.barrier()
        starts = tuple(n * stride for n in range(count))
        picks = tuple(n * lane.width + at for at in range(lane.width) for n in range(count))
        runs = Runs(starts, lane.width, picks, lane.width)
        rows = [self._load_run(storage, Linear(form.const + at, form.terms), runs) for at in starts]
        value = shuffle_runs(self.text, rows, storage.array.dtype, runs)
        if self.scope.depth(form) != INLINE:
            self.text.known.record_load(array, place, form.const, value, self._most_remembered(storage))
        return value

    def _emit_load(self, storage: ArrayPointer, form: Linear, width: int, read: int) -> SSAValue:
        dtype = storage.array.dtype
        address = self.pointer(storage, form)
        raw = self.text.emit_fresh(f"load {memory_text(dtype, read)}, ptr {address}, align {dtype.bytes}")
        if read != width:
            raw = self._resize_vector(raw, memory_text(dtype, read), read, width)
        return self._register_value(SSAValue(raw, _storage_type(dtype), width), dtype)

    def _resize_vector(self, vector: str, type_: str, lanes: int, to: int) -> str:
        """The first lanes of a vector in another number of lanes."""
        picks = ", ".join(f"i32 {n}" if n < lanes else "i32 poison" for n in range(to))
        return self.text.emit_pure(f"shufflevector {type_} {vector}, {type_} poison, <{to} x i32> <{picks}>")

    def _masked_load(self, storage: ArrayPointer, form: Linear) -> SSAValue:
        assert self.scope.lane is not None
        width, dtype = self.scope.lane.width, storage.array.dtype
        mask = self.scope.mask()
        assert mask is not None
        raw = self._load_masked_lanes(storage, form, width, mask.typed)
        return self._register_value(SSAValue(raw, _storage_type(dtype), width), dtype)

    def _load_masked_lanes(self, storage: ArrayPointer, form: Linear, width: int, mask: str) -> str:
        """The elements that a mask selects, of a vector of `width`; others are zero."""
        dtype = storage.array.dtype
        type_ = memory_text(dtype, width)
        symbol = f"@llvm.masked.load.{suffix(_storage_type(dtype), width)}.p0"
        self.declarations[symbol] = f"declare {type_} {symbol}(ptr, i32, <{width} x i1>, {type_})"
        address = self._guarded_pointer(storage, form, width)
        arguments = f"ptr {address}, i32 {dtype.bytes}, {mask}, {type_} zeroinitializer"
        return self.text.emit_fresh(f"call {type_} {symbol}({arguments})")

    def _guarded_pointer(self, storage: ArrayPointer, form: Linear, width: int) -> str:
        """The address of a vector under conditions that all lanes share: where these do not hold, one in the array.

        A mask alone would do, but where there is no page, a CPU takes hundreds of cycles to find that no lane is wanted
        (Intel's optimization manual on masked loads).
        """
        runs = self.scope.shared_predicate()
        if runs is None or self.in_bounds(storage, form):
            return self.pointer(storage, form)
        element, middle = memory_text(storage.array.dtype), storage.array.size // 2
        if not form.terms or abs(form.const) + width > middle:
            return self.text.emit_pure(f"select {runs.typed}, ptr {self.pointer(storage, form)}, ptr {storage.pointer}")
        # The constant part stays one of the instruction.
        other = self.text.emit_pure(f"getelementptr {element}, ptr {storage.pointer}, i64 {middle}")
        base = self.text.emit_pure(
            f"select {runs.typed}, ptr {self._base_address(storage, form.terms, element)}, ptr {other}"
        )
        return self.text.emit_pure(f"getelementptr {element}, ptr {base}, i64 {form.const}") if form.const else base

    def _load_run(self, storage: ArrayPointer, form: Linear, runs: Runs) -> str:
        """The vector of a run; what is past the end of it is read where that is memory of the array, too."""
        last = Linear(form.const + runs.length - 1, form.terms)
        if runs.read == runs.length or self.in_bounds(storage, last):
            return self._emit_load(storage, form, runs.length, runs.length).text
        return self._load_masked_lanes(storage, form, runs.length, lane_range_mask(0, runs.read, runs.length))

    def _lane_addresses(self, storage: ArrayPointer, form: Linear) -> str:
        """The address of each lane: beside a common one at offsets of 32 bits, where these hold them."""
        element = memory_text(storage.array.dtype)
        shared, step, varying = self.split_lane(form)
        if not self._fit_short_offsets(step, varying):
            return self.text.emit_pure(f"getelementptr {element}, ptr {storage.pointer}, {self.index(form).typed}")
        # x86 adds what 16 lanes of 32 bits say to one address, and of 64 bits 8.
        offsets = self.arith.cast(self._short_offsets(step, varying), INDEX)
        return self.text.emit_pure(f"getelementptr {element}, ptr {self.pointer(storage, shared)}, {offsets.typed}")

    def _fit_short_offsets(self, step: int, varying: Terms) -> bool:
        """Whether 32 bits hold what varies from lane to lane, and all parts of it."""
        assert self.scope.lane is not None
        ranges = [self.scope.indices.range(Linear.of_atom(atom)) for atom, _ in varying]
        if self.scope.wraps or any(None in found for found in ranges):
            return False
        most = sum(abs(c) * max(abs(lo or 0), abs(hi or 0)) for (_, c), (lo, hi) in zip(varying, ranges, strict=True))
        return most + abs(step) * self.scope.lane.width <= _MOST_SHORT_OFFSET

    def _short_offsets(self, step: int, varying: Terms) -> SSAValue:
        """What lanes are apart; nothing where those that run have one place."""
        assert self.scope.lane is not None
        width, short = self.scope.lane.width, DType.I32
        parts = [(lane_numbers(short, width), step)] if step else []
        parts += [(self.arith.widen(self.short_atom(atom), width), c) for atom, c in varying]
        out: SSAValue | None = None
        for value, c in parts:
            part = value if c == 1 else self.arith.binary(BinOp.MUL, value, constant(c, short, width))
            out = part if out is None else self.arith.binary(BinOp.ADD, out, part)
        return constant(0, short, width) if out is None else out

    def _gather(self, storage: ArrayPointer, form: Linear) -> SSAValue:
        assert self.scope.lane is not None
        width, dtype = self.scope.lane.width, storage.array.dtype
        mask = None if self.in_bounds(storage, form) else self.scope.mask()
        mask_text = f"<{width} x i1> {splat_text('i1', 'true', width)}" if mask is None else mask.typed
        type_ = memory_text(dtype, width)
        symbol = f"@llvm.masked.gather.{suffix(_storage_type(dtype), width)}.v{width}p0"
        self.declarations[symbol] = f"declare {type_} {symbol}(<{width} x ptr>, i32, <{width} x i1>, {type_})"
        call = (
            f"call {type_} {symbol}(<{width} x ptr> {self._lane_addresses(storage, form)}, i32 {dtype.bytes}, "
            f"{mask_text}, {type_} zeroinitializer)"
        )
        wanted = self.scope.mask() if any(guard.cond.width for guard in self.scope.guards) else None
        if wanted is None or not self.text.takes_blocks:
            raw = self.text.emit_fresh(call)
        else:
            raw = self.text.emit_if(self.arith.any_lane(wanted), call, type_)
        return SSAValue(raw, _storage_type(dtype), width)

    def _load_scattered(self, storage: ArrayPointer, form: Linear) -> SSAValue:
        """A load of lanes that are no neighbours; one that is known already is used again, under conditions, too."""
        lane = self.scope.lane
        assert lane is not None
        shared, _, varying = self.split_lane(form)
        place: Place = ("apart", form.terms, lane.width, lane.active)
        found = self.text.known.find(storage.array.name, place, form.const)
        if found is not None:
            return found
        raw = self._load_shuffled(storage, form) or self._gather(storage, form)
        value = self._register_value(raw, storage.array.dtype)
        everywhere = not self.scope.guards and (lane.mask is None or lane.active is not None)
        # What an index reads may be written before it is asked for again.
        is_fixed = is_of_lane(self.scope.indices, lane, varying) and self.scope.depth(shared) != INLINE
        if everywhere and is_fixed:
            self.text.known.record_load(storage.array.name, place, form.const, value, self._most_remembered(storage))
        return value

    def _load_shuffled(self, storage: ArrayPointer, form: Linear) -> SSAValue | None:
        """Lanes that read a few runs of neighbours, or are near one another: as vectors, shuffled. Those that share few
        elements: as broadcasts. Those at places that are known, if the CPU does not gather: one by one.
        """
        lane = self.scope.lane
        assert lane is not None
        shared, step, varying = self.split_lane(form)
        here = running_lanes(self.scope)
        # Where it is known which lanes run, those that run read memory that is there. Of what may wrap, no bounds are
        # known.
        safe = (here is not None and not self.scope.wraps) or self.in_bounds(storage, form)
        is_known = is_of_lane(self.scope.indices, lane, varying)
        if not is_known or storage.array.dtype.is_bool or not safe:
            return None
        offsets = _lane_offsets(lane, substitute_lanes(lanes_before_end(lane) if here is None else here), step, varying)
        block = _WIDEST_VECTOR_BYTES // storage.array.dtype.bytes
        elements = find_splats(offsets, block)
        if elements is not None:
            return self._load_splats(storage, shared, elements, block)
        runs = find_runs(offsets) or find_span(offsets)
        few = find_shared_elements(offsets) if runs is None else None
        if few is not None:
            read = self._load_elements(storage, shared, few)
            return blend_elements(self.text, read, storage.array.dtype, [few.index(at) for at in offsets])
        pieces = find_pieces(offsets[: lane.active or lane.width]) if runs is None and self.arith.native.masks else None
        if pieces is not None:
            return self._load_pieces(storage, shared, pieces)
        if runs is None:
            return None if self.arith.native.gathers else self._load_splats(storage, shared, offsets, 1)
        places = [Linear(shared.const + start, shared.terms) for start in runs.starts]
        parts = [self._load_run(storage, place, runs) for place in places]
        return shuffle_runs(self.text, parts, storage.array.dtype, runs)

    def _load_pieces(self, storage: ArrayPointer, shared: Linear, pieces: Sequence[Piece]) -> SSAValue:
        """A vector of pieces, each loaded to the lanes that it is for."""
        assert self.scope.lane is not None
        width, dtype = self.scope.lane.width, storage.array.dtype
        type_, found = memory_text(dtype, width), ""
        for piece in pieces:
            mask = lane_range_mask(piece.first, piece.end, width)
            place = Linear(shared.const + piece.start - piece.first, shared.terms)
            part = self._load_masked_lanes(storage, place, width, mask)
            found = self.text.emit_pure(f"select {mask}, {type_} {part}, {type_} {found}") if found else part
        return self._register_value(SSAValue(found, _storage_type(dtype), width), dtype)

    def _load_splats(self, storage: ArrayPointer, shared: Linear, elements: Sequence[int], block: int) -> SSAValue:
        """A vector of which each `block` of lanes is one element, so far from a common place."""
        return join_splats(self.text, self._load_elements(storage, shared, elements), storage.array.dtype, block)

    def _load_elements(self, storage: ArrayPointer, shared: Linear, elements: Sequence[int]) -> list[SSAValue]:
        """The elements so far from a common place."""
        places = [Linear(shared.const + at, shared.terms) for at in elements]
        return [self._emit_load(storage, place, 0, 0) for place in places]

    def _load_transposed(self, storage: ArrayPointer, index: Expr) -> SSAValue | None:
        """Lanes far apart that are beside those of other iterations of an unrolled loop: read with these."""
        scope, dtype = self.scope, storage.array.dtype
        form = scope.indices.form(index)
        shared, step, varying = self.split_lane(form)
        lane, run = scope.lane, run_length(dtype)
        assert lane is not None
        conditional = (lane.mask is not None and lane.active is None) or scope.guards or scope.wraps
        if conditional or dtype.is_bool or not is_of_lane(scope.indices, lane, varying):
            return None
        apart = find_lane_units(_lane_offsets(lane, np.arange(lane.width), step, varying), run)
        if apart is None:
            return None
        place: Place = ("transposed", form.terms, lane.width)
        found = self.text.known.find(storage.array.name, place, form.const)
        unit = apart.unit
        first = self._first_neighbour(storage.array.name, index, run // unit, unit) if found is None else None
        if first is None:
            return found
        rows = []
        # Lanes that do not run have the last one that does.
        last = ((lane.active or lane.width) - 1) // unit
        for row in range(run // unit):
            there = [min(n, last) for n in range(row, lane.width // unit, run // unit)]
            starts = [shared.const + first - form.const + apart.start + apart.step * n for n in there]
            runs = [self._emit_load(storage, Linear(start, shared.terms), run, run).text for start in starts]
            rows.append(join_runs(self.text, runs, dtype))
        for n, vector in enumerate(transpose_rows(self.text, rows, dtype, lane.width, unit)):
            value = SSAValue(vector, _storage_type(dtype), lane.width)
            self.text.known.record_load(storage.array.name, place, first + n * unit, value, _MOST_TRANSPOSED_VALUES)
        return self.text.known.find(storage.array.name, place, form.const)

    def _first_neighbour(self, array: str, index: Expr, count: int, unit: int) -> int | None:
        """Where a run begins, of which each of `count` iterations of an unrolled loop reads a unit, this one, too."""
        forms = self.scope.indices
        for loop in reversed(self.scope.unrolled):
            if array in loop.written or loop.extent < count:
                continue
            places = []
            first = min(loop.at, loop.extent - count)
            for at in range(first, first + count):
                with forms.bind_value(loop.var, Linear(at)):
                    places.append(forms.form(index))
            start = places[0]
            if places == [Linear(start.const + n * unit, start.terms) for n in range(count)]:
                return start.const
        return None

    # --- stores ---

    def store(self, array: str, index: Expr, value: SSAValue) -> None:
        """`array[index] = value`, in the lanes that run."""
        storage = self.scope.arrays[array]
        form = self.scope.indices.form(index)
        shared, step, varying = self.split_lane(form)
        if self.scope.lane is None:
            self._store_first_lanes(storage, form, value, 0)
            return
        value = self.arith.widen(value, self.scope.lane.width)
        if varying or step != 1:
            self._scatter(storage, form, value)
        elif storage.array.kind is ArrayKind.REGISTER:
            self._register_store(storage, shared, value)
        elif (mask := self.scope.mask()) is None:
            self._store_first_lanes(storage, shared, value, value.width)
        else:
            self._masked_store(storage, shared, value, mask)

    def _store_first_lanes(self, storage: ArrayPointer, form: Linear, value: SSAValue, write: int) -> None:
        """A store of the first `write` lanes, or of a scalar."""
        dtype = storage.array.dtype
        raw = self._memory_value(value)
        text = raw.text
        if write != value.width:
            text = self._resize_vector(text, memory_text(dtype, value.width), value.width, write)
        self.text.line(
            f"store {memory_text(dtype, write)} {text}, ptr {self.pointer(storage, form)}, align {dtype.bytes}"
        )
        place: Place = (form.terms, value.width, write, form.const % max(write, 1))
        self.text.known.record_store(storage.array.name, place, form.const, value, self._most_remembered(storage))

    def stream(self, array: str, index: Expr, value: SSAValue) -> None:
        """`array[index] = value` past the caches, where that is a whole vector at a multiple of its size.

        Elsewhere it is an ordinary store. x86 has these stores out of order with others: a function that has any ends
        in a fence.
        """
        storage = self.scope.arrays[array]
        shared, step, varying = self.split_lane(self.scope.indices.form(index))
        lane = self.scope.lane
        if lane is None or lane.is_tail or varying or step != 1 or self.scope.mask() is not None:
            self.store(array, index, value)
            return
        value = self.arith.widen(value, lane.width)
        size = storage.array.dtype.bytes * lane.width
        if size < _LEAST_STREAM_BYTES or size & (size - 1):
            self._store_first_lanes(storage, shared, value, lane.width)
            return
        self._emit_stream(storage, shared, value, min(size, CACHE_LINE))

    def _emit_stream(self, storage: ArrayPointer, form: Linear, value: SSAValue, boundary: int) -> None:
        text, dtype, width = self.text, storage.array.dtype, value.width
        # An address a whole number of boundaries further on has the same alignment.
        asked = Linear(form.const % (boundary // dtype.bytes), form.terms)
        address = text.emit_pure(f"ptrtoint ptr {self.pointer(storage, asked)} to i64")
        beyond = text.emit_pure(f"and i64 {address}, {boundary - 1}")
        aligned = text.emit_pure(f"icmp eq i64 {beyond}, 0")
        pointer, raw = self.pointer(storage, form), self._memory_value(value).text
        past, usual, after = (text.fresh_label(hint) for hint in ("stream", "usual", "stored"))
        text.line(f"br i1 {aligned}, label %{past}, label %{usual}")
        store = f"store {memory_text(dtype, width)} {raw}, ptr {pointer}"
        text.start_block(past)
        text.line(f"{store}, align {boundary}, !nontemporal {text.metadata('!{i32 1}')}")
        text.line(f"br label %{after}")
        text.start_block(usual)
        text.line(f"{store}, align {dtype.bytes}")
        text.line(f"br label %{after}")
        text.start_block(after)
        place: Place = (form.terms, width, width, form.const % width)
        text.known.record_store(storage.array.name, place, form.const, value, self._most_remembered(storage))

    def prefetch(self, array: str, index: Expr, cache: int) -> None:
        """Ask for the lines that `array[index]` is in, a line apart from its first lane on, and each once."""
        storage = self.scope.arrays[array]
        shared, step, varying = self.split_lane(self.scope.indices.form(index))
        if varying:
            return
        width, size = 1 if self.scope.lane is None else self.scope.lane.width, storage.array.dtype.bytes
        first = {lane * step * size // CACHE_LINE: lane * step for lane in reversed(range(width))}
        for offset in first.values():
            element = shared.const + offset
            key = ("prefetch", array, shared.terms, element * size // CACHE_LINE)
            if key not in self.text.known.names:
                address = self.pointer(storage, Linear(element, shared.terms))
                self.text.known.names[key] = address
                self.declarations["@llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
                self.text.line(
                    f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 {_LOCALITY_BASE - cache}, i32 1)"
                )

    def _register_store(self, storage: ArrayPointer, form: Linear, value: SSAValue) -> None:
        """A store of whole vectors to a register array; lanes that do not run keep what they have.

        It is never masked, because a masked store would keep the array in memory. Nor is it narrower than the vector
        where it need not be: LLVM would take values of 26 lanes apart and put them together at each use.
        """
        lane = self.scope.lane
        assert lane is not None
        is_known_tail = lane.active is not None and not self.scope.guards
        may_write_all = is_known_tail and storage.array.spare_lanes
        mask = None if may_write_all else self.scope.mask()
        if mask is not None:
            value = self.arith.select(mask, value, self._vector_load(storage, form, safe=True))
        self._store_first_lanes(storage, form, value, lane.width)

    def _masked_store(self, storage: ArrayPointer, form: Linear, value: SSAValue, mask: SSAValue) -> None:
        dtype, width = storage.array.dtype, value.width
        raw = self._memory_value(value)
        symbol = f"@llvm.masked.store.{suffix(_storage_type(dtype), width)}.p0"
        self.declarations[symbol] = f"declare void {symbol}({memory_text(dtype, width)}, ptr, i32, <{width} x i1>)"
        address = self.pointer(storage, form)
        self.text.line(f"call void {symbol}({raw.typed}, ptr {address}, i32 {dtype.bytes}, {mask.typed})")
        self.text.known.forget(storage.array.name)

    def _scatter(self, storage: ArrayPointer, form: Linear, value: SSAValue) -> None:
        dtype, width = storage.array.dtype, value.width
        mask = self.scope.mask()
        mask_text = f"<{width} x i1> {splat_text('i1', 'true', width)}" if mask is None else mask.typed
        raw = self._memory_value(value)
        symbol = f"@llvm.masked.scatter.{suffix(_storage_type(dtype), width)}.v{width}p0"
        self.declarations[symbol] = (
            f"declare void {symbol}({memory_text(dtype, width)}, <{width} x ptr>, i32, <{width} x i1>)"
        )
        self.text.line(
            f"call void {symbol}({raw.typed}, <{width} x ptr> {self._lane_addresses(storage, form)}, "
            f"i32 {dtype.bytes}, {mask_text})"
        )
        self.text.known.forget(storage.array.name)


def _lane_offsets(lane: Lane, numbers: npt.NDArray[np.intp], step: int, varying: Terms) -> list[int]:
    """How far from a common place lanes of some numbers read, where that depends on nothing but the lane."""
    return [int(at) for at in step * numbers + sum_of_terms(lane, numbers, varying)]


def _may_be_unwritten(array: Array, lane: Lane) -> bool:
    """Whether lanes that do not run would read memory that was never written.

    Their results are not used, but arithmetic on a subnormal number takes a hundred cycles.
    """
    return lane.mask is not None and array.dtype.is_float and array.kind in (ArrayKind.SHARED, ArrayKind.THREAD)


def _storage_type(dtype: DType) -> DType:
    return DType.U8 if dtype.is_bool else dtype
