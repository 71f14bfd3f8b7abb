"""Statements: loops, vector strips, conditions and writes of one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from typing import Any, ClassVar

from metasched.compiler import lir
from metasched.compiler.cpu.emit.accesses.transposed_loads import is_straight
from metasched.compiler.cpu.emit.arg_reductions import ArgReductions
from metasched.compiler.cpu.emit.counters import TickCounters
from metasched.compiler.cpu.emit.expressions import Expressions
from metasched.compiler.cpu.emit.indices import Range
from metasched.compiler.cpu.emit.scope import FunctionScope, Lane, UnrolledLoop
from metasched.compiler.cpu.emit.tensor import TensorOperands, emitters
from metasched.compiler.cpu.emit.tiles import TileRegisters
from metasched.compiler.cpu.emit.types import SSAValue, constant, first_lanes
from metasched.compiler.lir import LoopMode
from metasched.dtypes import INDEX, DType
from metasched.errors import BuildError
from metasched.ir.integers.linear import Linear
from metasched.ir.nodes import Binary, BinOp, Const, Load, Var

# Operations whose terms may be taken in any order.
_FOLDS = (BinOp.ADD, BinOp.MUL, BinOp.MIN, BinOp.MAX)

Launch = Callable[[tuple[lir.Loop, ...], "Statements"], None]


class Statements(Expressions):
    """Emits statements. `launch` emits the loops of a parallel region; without one, they run serially."""

    def __init__(self, scope: FunctionScope, declarations: dict[str, str], launch: Launch | None) -> None:
        super().__init__(scope, declarations)
        self._launch = launch
        self._tiles = TileRegisters(self)
        self._bests = ArgReductions(self)
        self.counters = TickCounters(self.text, declarations)
        self._written: dict[lir.LStmt, frozenset[str]] = {}
        self._straight: dict[lir.LStmt, bool] = {}
        self._vectorizable_loops: dict[lir.VectorLoop, bool] = {}

    def statement(self, stmt: lir.LStmt) -> None:
        """Emit a statement in the current scope."""
        emit = self._EMITTERS.get(type(stmt))
        if emit is None:
            raise BuildError(f"statement {type(stmt).__name__}", "the compiler does not know this statement")
        emit(self, stmt)

    def _body(self, body: lir.Body) -> None:
        for child in body.stmts:
            self.statement(child)

    def _region(self, region: lir.Region) -> None:
        if self._launch is not None and self.scope.lane is None:
            self._launch(region.phases, self)
            return
        for phase in region.phases:
            self.statement(phase)

    def _write(self, stmt: lir.Write) -> None:
        with self.arith.fastmath() if stmt.fast else nullcontext():
            value = self.value(stmt.value)
        if stmt.streams:
            self.stream(stmt.array, stmt.index, value)
        else:
            self.store(stmt.array, stmt.index, value)
        self._tiles.forget(stmt.array)

    def _arg_reduction(self, stmt: lir.ArgReduction) -> None:
        self._bests.update(stmt)

    def _prefetch(self, stmt: lir.Prefetch) -> None:
        self.prefetch(stmt.array, stmt.index, stmt.cache)

    def _intrinsic(self, stmt: lir.IntrinsicCall) -> None:
        emitters()[stmt.name](TensorOperands(self, self._tiles, stmt))
        self._tiles.forget(stmt.output.first.buffer)

    def _tile_move(self, stmt: lir.TileMove) -> None:
        self._tiles.move_tile(stmt)

    def _counted_statement(self, stmt: lir.Counted) -> None:
        self.emit_counted(stmt.number, lambda: self.statement(stmt.body))

    def emit_counted(self, number: int, body: Callable[[], None]) -> None:
        """Emit code with a counter of ticks around it."""
        with self.counters.count_ticks(number):
            body()

    def _reread(self, _stmt: lir.Reread) -> None:
        """Forget what was read from memory, and have LLVM forget it."""
        for name, storage in self.scope.arrays.items():
            if storage.array.kind is not lir.ArrayKind.REGISTER:
                self.text.known.forget(name)
        self.text.barrier()

    def written_arrays(self, stmt: lir.LStmt) -> frozenset[str]:
        """The arrays that a statement writes."""
        found = self._written.get(stmt)
        if found is None:
            found = frozenset((stmt.array,)) if isinstance(stmt, lir.Write) else frozenset()
            if isinstance(stmt, lir.ArgReduction):
                found = frozenset((stmt.values.buffer, stmt.positions.buffer))
            if isinstance(stmt, lir.IntrinsicCall):
                found = frozenset((stmt.output.first.buffer,))
            if isinstance(stmt, lir.TileMove):
                found = frozenset((stmt.target.first.buffer,))
            for child in stmt.children():
                if isinstance(child, lir.LStmt):
                    found |= self.written_arrays(child)
            self._written[stmt] = found
        return found

    # --- conditions ---

    def _if(self, stmt: lir.If) -> None:
        cond = self.value(stmt.cond)
        if cond.text == "true":
            self.statement(stmt.body)
        elif cond.text == "false":
            return
        elif cond.width:
            with self.scope.push_guard(cond, stmt.cond):
                self.statement(stmt.body)
        else:
            self.branch(cond, self.written_arrays(stmt.body), lambda: self.statement(stmt.body))

    def _at_place(self, stmt: lir.AtPlace) -> None:
        """Emit the body as a level of its own: what depends on the variable cannot be computed further out."""
        place = self.value(stmt.place)
        # A negative number is a large one without its sign.
        inside = SSAValue(self.text.emit_pure(f"icmp ult {place.typed}, {stmt.extent}"), DType.BOOL)

        def body() -> None:
            self.text.open_level()
            values = (0, stmt.extent - 1)
            with (
                self.scope.bind_variable(stmt.var, place, self.text.depth),
                self.scope.indices.bind_range(stmt.var, values),
            ):
                self.statement(stmt.body)
            self.text.close_level()

        self.branch(inside, self.written_arrays(stmt.body), body)

    def branch(self, cond: SSAValue, written: frozenset[str], body: Callable[[], None]) -> None:
        """Run `body` when a scalar condition holds."""
        text = self.text
        then, after = text.fresh_label("then"), text.fresh_label("after")
        text.line(f"br {cond.typed}, label %{then}, label %{after}")
        with text.conditional_region(written):
            text.start_block(then)
            body()
            text.line(f"br label %{after}")
        text.start_block(after)

    # --- loops ---

    def _loop(self, loop: lir.Loop) -> None:
        extent = self.scope.indices.form(loop.extent)
        if loop.mode is LoopMode.UNROLLED:
            self._unrolled_loop(loop, extent)
        elif loop.mode is LoopMode.PARALLEL and self._launch is not None and self.scope.lane is None:
            self._launch((loop,), self)
        else:
            self.serial_loop(loop.var, constant(0, INDEX), self.index(extent), self._counter_range(extent), loop.body)

    def _unrolled_loop(self, loop: lir.Loop, extent: Linear) -> None:
        if extent.terms:
            raise BuildError("unrolled loop of unknown extent", f"`{loop.var}`")
        straight, written = self._is_straight(loop.body), self.written_arrays(loop.body)
        for value in range(extent.const):
            iteration = UnrolledLoop(loop.var, value, extent.const, written) if straight else None
            with self.scope.enter_iteration(iteration), self.scope.indices.bind_value(loop.var, Linear(value)):
                self.statement(loop.body)

    def _is_straight(self, stmt: lir.LStmt) -> bool:
        """Whether a statement is straight code: each copy of a loop asks, and a body is walked through once."""
        found = self._straight.get(stmt)
        if found is None:
            found = self._straight[stmt] = is_straight(stmt)
        return found

    def _counter_range(self, extent: Linear) -> Range:
        hi = self.scope.indices.range(extent)[1]
        return 0, None if hi is None else max(hi - 1, 0)

    def serial_loop(self, var: str, start: SSAValue, stop: SSAValue, values: Range, body: lir.LStmt) -> None:
        """`for var in range(start, stop)`; `values` bounds what `var` can be."""
        if start.text[0] != "%" and stop.text[0] != "%":
            first, last = int(start.text), int(stop.text)
            if last <= first:
                return
            if last == first + 1:
                with self.scope.indices.bind_value(var, Linear(first)):
                    self.statement(body)
                return
        self._counting_loop(var, start, stop, values, self.written_arrays(body), lambda: self.statement(body))

    def _counting_loop(
        self,
        var: str,
        start: SSAValue,
        stop: SSAValue,
        values: Range,
        written: frozenset[str],
        body: Callable[[], None],
    ) -> None:
        """A loop over a range, tested at the end; entered only when it has an iteration."""
        text = self.text
        if start.text[0] != "%" and stop.text[0] != "%":
            self._rotated_loop(var, start, stop, values, written, body)
            return
        any_iteration = self.arith.binary(BinOp.LT, start, stop)
        then, after = text.fresh_label("some"), text.fresh_label("none")
        text.line(f"br {any_iteration.typed}, label %{then}, label %{after}")
        outer = text.known
        text.start_block(then)
        text.known = outer.copy(frozenset())
        self._rotated_loop(var, start, stop, values, written, body)
        text.known = outer.copy(written)
        text.line(f"br label %{after}")
        text.start_block(after)

    def _rotated_loop(
        self,
        var: str,
        start: SSAValue,
        stop: SSAValue,
        values: Range,
        written: frozenset[str],
        body: Callable[[], None],
    ) -> None:
        text = self.text
        # Where assembly is commented, its name says which loop it is.
        head, after = text.fresh_label(f"loop.{var}"), text.fresh_label("done")
        name, following = text.name("i"), text.name("next")
        text.line(f"br label %{head}")
        entered_from = text.label
        text.start_block(head)
        lines, place = text.reserve()
        with text.conditional_region(written):
            text.open_level()
            value = SSAValue(name, INDEX)
            with self.scope.bind_variable(var, value, text.depth), self.scope.indices.bind_range(var, values):
                body()
            lines[place] = f"  {name} = phi i64 [ {start.text}, %{entered_from} ], [ {following}, %{text.label} ]"
            text.line(f"{following} = add nuw nsw i64 {name}, 1")
            again = text.name("again")
            text.line(f"{again} = icmp slt i64 {following}, {stop.text}")
            text.line(f"br i1 {again}, label %{head}, label %{after}, {text.loop_metadata()}")
            text.close_level()
        text.start_block(after)

    # --- vector loops ---

    def _vector_loop(self, loop: lir.VectorLoop) -> None:
        if self._is_fold(loop):
            self._fold(loop)
            return
        if self._bests.is_fold(loop):
            self._bests.fold(loop)
            return
        if self.scope.lane is not None or not self._vectorizable(loop):
            extent = self.scope.indices.form(loop.extent)
            self.serial_loop(loop.var, constant(0, INDEX), self.index(extent), self._counter_range(extent), loop.body)
            return
        extent = self.scope.indices.form(loop.extent)
        if extent.terms:
            self._unknown_strips(loop, extent)
        else:
            self._known_strips(loop, extent.const)

    def _is_fold(self, loop: lir.VectorLoop) -> bool:
        """Whether a loop of one strip updates one element with a value of each lane."""
        write = loop.body
        if not isinstance(write, lir.Write) or loop.extent != Const(loop.lanes) or self.scope.lane is not None:
            return False
        value, names = write.value, self.scope.indices.names
        if loop.var in names(write.index) or not isinstance(value, Binary) or value.op not in _FOLDS:
            return False
        return value.a == Load(write.array, (write.index,), value.a.dtype) and loop.var in names(value.b)

    def _fold(self, loop: lir.VectorLoop) -> None:
        """Reduce the lanes by halves to one, and update the element with it."""
        write = loop.body
        assert isinstance(write, lir.Write)
        assert isinstance(write.value, Binary)
        op = write.value.op
        with self.arith.fastmath() if write.fast else nullcontext():
            with self.scope.enter_lanes(Lane(loop.var, loop.lanes), Linear(0)):
                lanes = self.arith.widen(self.value(write.value.b), loop.lanes)
            folded = self._fold_lanes(op, lanes)
            value = self.arith.binary(op, self.value(write.value.a), folded)
        self.store(write.array, write.index, value)

    def _fold_lanes(self, op: BinOp, lanes: SSAValue) -> SSAValue:
        if lanes.width == 1:
            return self.arith.lane(lanes, 0)
        if op is BinOp.ADD and lanes.dtype.is_integer:
            return self.arith.total(lanes)
        half = lanes.width // 2
        folded = self.arith.binary(op, self.arith.lanes(lanes, 0, half), self.arith.lanes(lanes, half, half))
        out = self._fold_lanes(op, folded)
        return self.arith.binary(op, out, self.arith.lane(lanes, lanes.width - 1)) if lanes.width % 2 else out

    def _vectorizable(self, loop: lir.VectorLoop) -> bool:
        """Whether each iteration writes its own elements, and loops inside do not depend on the lane.

        Anything else (all iterations writing one element) is run one iteration at a time.
        """
        found = self._vectorizable_loops.get(loop)
        if found is None:
            found = self._vectorizable_loops[loop] = self._lanes_are_independent(loop)
        return found

    def _lanes_are_independent(self, loop: lir.VectorLoop) -> bool:
        names = self.scope.indices.names
        for node in loop.body.walk():
            if isinstance(node, lir.Write) and loop.var not in names(node.index):
                return False
            if isinstance(node, lir.ArgReduction) and not all(
                loop.var in names(x) for x in (node.values, node.positions)
            ):
                return False
            if isinstance(node, lir.Loop | lir.VectorLoop) and loop.var in names(node.extent):
                return False
            if isinstance(node, lir.VectorLoop):
                return False
        return True

    def _known_strips(self, loop: lir.VectorLoop, extent: int) -> None:
        lanes = loop.lanes
        extent = max(extent, 0)  # A clip may leave nothing of it.
        full = extent // lanes
        if loop.unroll_strips or full == 1:
            for strip in range(full):
                self._strip(loop, Lane(loop.var, lanes), Linear(strip * lanes))
        elif full:
            self._strip_loop(loop, constant(full, INDEX), (0, full - 1))
        rest = extent - full * lanes
        if rest:
            # The narrowest power of two: a tail of 4 in 16 lanes is a vector of 4, without a mask.
            width = min(lanes, 1 << (rest - 1).bit_length())
            lane = Lane(loop.var, width, is_tail=True)
            if rest != width:
                lane = Lane(loop.var, width, rest, first_lanes(rest, width), is_tail=True)
            self._strip(loop, lane, Linear(full * lanes))

    def _unknown_strips(self, loop: lir.VectorLoop, extent: Linear) -> None:
        """Full strips, then a masked one of what is left."""
        lanes = loop.lanes
        total = self.index(extent)
        hi = self.scope.indices.range(extent)[1]
        positive = self.arith.binary(BinOp.MAX, constant(0, INDEX), total)
        full = SSAValue(self.text.emit_pure(f"udiv {positive.typed}, {lanes}"), INDEX)
        if hi is None or hi >= lanes:
            self._strip_loop(loop, full, (0, None if hi is None else max(hi // lanes - 1, 0)))
        done = SSAValue(self.text.emit_pure(f"mul nuw nsw {full.typed}, {lanes}"), INDEX)
        rest = SSAValue(self.text.emit_pure(f"sub nsw {positive.typed}, {done.text}"), INDEX)
        some = self.arith.binary(BinOp.LT, constant(0, INDEX), rest)
        # In strips, so that what is a multiple of the lanes is seen to be one.
        start = f"{loop.var}.tail{lanes}.{hi}"

        def tail() -> None:
            lane = Lane(loop.var, lanes)
            depth = self.text.depth
            bounds = (0, None if hi is None else hi // lanes)
            with ExitStack() as stack:
                # The tail is a level of its own: its start is computed here, not in the head around.
                self.text.open_level()
                stack.callback(self.text.close_level)
                stack.enter_context(self.scope.bind_variable(start, full, depth + 1))
                stack.enter_context(self.scope.indices.bind_range(start, bounds))
                self.scope.lane = lane
                mask = self.lanes_compare(rest, below=True)
                self._strip(loop, Lane(loop.var, lanes, None, mask), Linear(0, ((Var(start), lanes),)))

        self.branch(some, self.written_arrays(loop.body), tail)

    def _strip_loop(self, loop: lir.VectorLoop, full: SSAValue, values: Range) -> None:
        # Ranges are part of the name: one name has one range in all copies of the loop.
        strip = f"{loop.var}.strip{loop.lanes}.{values[1]}"
        start = Linear(0, ((Var(strip), loop.lanes),))
        self._counting_loop(
            strip,
            constant(0, INDEX),
            full,
            values,
            self.written_arrays(loop.body),
            lambda: self._strip(loop, Lane(loop.var, loop.lanes), start),
        )

    def _strip(self, loop: lir.VectorLoop, lane: Lane, start: Linear) -> None:
        if lane.width == 1:
            self.scope.lane = None
            with self.scope.indices.bind_value(loop.var, start):
                self.statement(loop.body)
            return
        with self.scope.enter_lanes(lane, start):
            self.statement(loop.body)

    # What emits each kind of statement.
    _EMITTERS: ClassVar[Mapping[type[lir.LStmt], Callable[[Statements, Any], None]]] = {
        lir.ArgReduction: _arg_reduction,
        lir.AtPlace: _at_place,
        lir.Body: _body,
        lir.Counted: _counted_statement,
        lir.If: _if,
        lir.IntrinsicCall: _intrinsic,
        lir.Loop: _loop,
        lir.Prefetch: _prefetch,
        lir.Region: _region,
        lir.Reread: _reread,
        lir.TileMove: _tile_move,
        lir.VectorLoop: _vector_loop,
        lir.Write: _write,
    }
