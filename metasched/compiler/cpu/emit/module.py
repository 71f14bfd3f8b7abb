"""A whole LLVM module for a kernel: its body, functions for each parallel region, and the entry."""

from __future__ import annotations

from functools import partial

from metasched.compiler import lir
from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.emit.arith import Arithmetic
from metasched.compiler.cpu.emit.counters import counter_globals
from metasched.compiler.cpu.emit.indices import Indices
from metasched.compiler.cpu.emit.native import Native
from metasched.compiler.cpu.emit.scheduling import scheduling_attribute
from metasched.compiler.cpu.emit.scope import PADDING, ArrayPointer, FunctionScope
from metasched.compiler.cpu.emit.sharing import COUNT_BYTES, is_long, share_text
from metasched.compiler.cpu.emit.statements import Statements
from metasched.compiler.cpu.emit.tensor import require_features
from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.cpu.emit.tiles import configure, needs_tiles, release, uses_tiles
from metasched.compiler.cpu.emit.types import SSAValue, memory_text
from metasched.compiler.lir import Array, ArrayKind
from metasched.dtypes import INDEX, DType
from metasched.errors import BuildError
from metasched.ir.nodes import Load, Scalar
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE, Target

ENTRY = "metasched_kernel"
# Registers spill to the stack, and nothing large goes there.
MAX_STACK = 64 << 10


@dataclass(frozen=True)
class EmittedModule:
    """LLVM text. `entry` takes the kernel's arguments in order, then a workspace (null: it finds its own)."""

    text: str
    entry: str
    workspace_bytes: int
    parallel: bool


@dataclass(frozen=True)
class WorkspaceLayout:
    """Byte offsets of the workspace's arrays: shared ones from its start, then a slice for each chunk of a region."""

    offsets: dict[str, int]
    shared: int
    slice: int
    threads: int

    @property
    def total(self) -> int:
        return self.shared + self.slice * self.threads


def _lay_out_workspace(arrays: tuple[Array, ...], threads: int) -> WorkspaceLayout:
    offsets: dict[str, int] = {}
    sizes = {ArrayKind.SHARED: 0, ArrayKind.THREAD: 0}
    for array in arrays:
        if array.kind in sizes:
            offsets[array.name] = sizes[array.kind]
            size = array.size * array.dtype.bytes + PADDING
            sizes[array.kind] += -(-size // CACHE_LINE) * CACHE_LINE
    return WorkspaceLayout(offsets, sizes[ArrayKind.SHARED], sizes[ArrayKind.THREAD], threads)


def emit(kernel: lir.LoopProgram, target: Target) -> EmittedModule:
    """The LLVM module of a kernel; raises BuildError for what the compiler cannot compile."""
    return _ModuleEmitter(kernel, target).emit()


class _ModuleEmitter:
    def __init__(self, kernel: lir.LoopProgram, target: Target) -> None:
        require_features(kernel, target)
        self._kernel = kernel
        self._threads = target.threads
        self._native = Native.from_target(target)
        self._declarations: dict[str, str] = {}
        self._metadata: list[str] = list(runtime.METADATA)
        self._functions: list[str] = []
        self._indices = Indices()
        self._layout = _lay_out_workspace(kernel.arrays, target.threads)
        self._memory = [a for a in kernel.arrays if a.kind not in _REGISTER_KINDS]
        self._tiles = uses_tiles(kernel)
        self._scheduling = scheduling_attribute(target)
        self._regions = 0
        # Elsewhere, memory has no order to keep but what threads agree on.
        self._fences = "sse" in target.features and _has_streams(kernel.body)

    def emit(self) -> EmittedModule:
        self._emit_body()
        self._define_entry()
        parallel = self._regions > 0
        text = "\n".join(
            [
                runtime.GLOBALS,
                *counter_globals(self._kernel.body),
                *sorted(self._declarations.values()),
                "",
                *self._functions,
                *self._metadata,
                "",
            ]
        )
        return EmittedModule(text, ENTRY, self._layout.total, parallel)

    # --- functions ---

    def _new_scope(self) -> FunctionScope:
        text = FunctionText(self._metadata)
        arrays = {a.name: ArrayPointer(a, _pointer_name(a)) for a in self._kernel.arrays}
        arithmetic = Arithmetic(text, self._declarations, self._native)
        scope = FunctionScope(text, arithmetic, self._indices, arrays, self._kernel.wraps)
        for scalar in self._kernel.scalars:
            scope.variables[scalar.name] = (self._scalar_value(scope, scalar), 0)
        return scope

    def _scalar_value(self, scope: FunctionScope, scalar: Scalar) -> SSAValue:
        if scalar.dtype.is_bool:
            return SSAValue(scope.text.emit_pure(f"icmp ne i8 {_scalar_name(scalar)}, 0"), scalar.dtype)
        return SSAValue(_scalar_name(scalar), scalar.dtype)

    def _parameters(self) -> list[str]:
        """What the body and the regions take: every array in memory, then the scalars."""
        arrays = [f"ptr noalias {_pointer_name(a)}" for a in self._memory]
        return arrays + [f"{memory_text(s.dtype)} {_scalar_name(s)}" for s in self._kernel.scalars]

    def _define_function(self, name: str, parameters: list[str], scope: FunctionScope, body: lir.LStmt) -> None:
        self._allocate_registers(scope, body)
        if self._needs_tiles(body):
            scope.text.entry.append(f"  {configure(self._declarations)}")
            scope.text.line(release(self._declarations))
        if self._fences and _has_streams(body):
            self._emit_fence(scope.text)
        scope.text.line("ret void")
        lines = "\n".join(scope.text.lines())
        attributes = " ".join(filter(None, ("noinline nounwind", _ESTIMATE_ATTRIBUTE, self._scheduling)))
        self._functions.append(f"define internal void @{name}({', '.join(parameters)}) {attributes} {{\n{lines}\n}}\n")

    def _needs_tiles(self, body: lir.LStmt) -> bool:
        """Whether a function of this body uses tile registers itself."""
        return uses_tiles(body) and (needs_tiles(body) if self._threads > 1 else True)

    def _emit_fence(self, text: FunctionText) -> None:
        """Other threads see what was stored past the caches from here on."""
        self._declarations["@llvm.x86.sse.sfence"] = "declare void @llvm.x86.sse.sfence()"
        text.line("call void @llvm.x86.sse.sfence()")

    def _allocate_registers(self, scope: FunctionScope, body: lir.LStmt) -> None:
        """Room for the register arrays that a function uses; LLVM turns it into registers."""
        used = _used_arrays(body)
        size = 0
        for array in self._kernel.arrays:
            if array.kind is ArrayKind.REGISTER and array.name in used:
                elements = array.size + PADDING // array.dtype.bytes
                size += elements * array.dtype.bytes
                scope.text.entry.append(
                    f"  {_pointer_name(array)} = alloca [{elements} x {memory_text(array.dtype)}], align {CACHE_LINE}"
                )
        if size > MAX_STACK:
            raise BuildError("register buffers too large", f"they take {size} bytes; at most {MAX_STACK}")

    def _emit_body(self) -> None:
        """The kernel on one thread, up to its parallel loops."""
        scope = self._new_scope()
        launch = self._launch_region if self._threads > 1 else None
        statements = Statements(scope, self._declarations, launch)
        statements.statement(self._kernel.body)
        statements.counters.add_up()
        outside = [a for a in self._memory if a.name not in self._layout.offsets]
        parameters = [f"ptr noalias {_pointer_name(a)}" for a in outside]
        parameters += [f"{memory_text(s.dtype)} {_scalar_name(s)}" for s in self._kernel.scalars]
        for array in self._memory:
            if array.name in self._layout.offsets:
                offset = self._layout.offsets[array.name]
                offset += self._layout.shared if array.kind is ArrayKind.THREAD else 0
                scope.text.entry.append(f"  {_pointer_name(array)} = getelementptr i8, ptr %workspace, i64 {offset}")
        self._define_function("body", [*parameters, "ptr %workspace"], scope, self._kernel.body)

    # --- parallel regions ---

    def _launch_region(self, phases: tuple[lir.Loop, ...], caller: Statements) -> None:
        """Emit the phases of a region and what runs a chunk of one, and start them in the calling function."""
        number = self._regions
        self._regions += 1
        captured = list(caller.scope.variables)
        captured = [name for name in captured if name not in {s.name for s in self._kernel.scalars}]
        for n, loop in enumerate(phases):
            self._emit_phase(f"{number}.{n}", loop, captured)
        long = [n for n, loop in enumerate(phases) if is_long(loop)]
        self._emit_task(number, len(phases), long, captured)
        text = caller.text
        extents = [caller.index(self._indices.form(loop.extent)).text for loop in phases]
        longest = self._emit_largest(text, extents)
        some = text.emit_fresh(f"icmp sgt i64 {longest}, 0")
        written = frozenset[str]().union(*(caller.written_arrays(loop.body) for loop in phases))
        start = partial(self._start_region, caller, number, extents, len(long), captured)
        caller.branch(SSAValue(some, DType.BOOL), written, start)

    def _start_region(
        self, caller: Statements, number: int, extents: list[str], long: int, captured: list[str]
    ) -> None:
        """Have the pool run a region, whose phases have these numbers of iterations."""
        text = caller.text
        state = text.emit_fresh(f"load ptr, ptr @{runtime.STATE}")
        allowed = self._runtime_function(text, state, runtime.ALLOWED)
        threads = text.emit_fresh(f"call i64 {allowed}(ptr {state}, i64 {self._threads})")
        chunks = [self._chunks(text, extent, threads) for extent in extents]
        values = [f"ptr {_pointer_name(a)}" for a in self._memory]
        values += [f"{memory_text(s.dtype)} {_scalar_name(s)}" for s in self._kernel.scalars]
        values += [f"i64 {caller.scope.variables[name][0].text}" for name in captured]
        most = self._emit_largest(text, chunks)
        values += ["ptr %workspace", f"ptr {self._emit_counts(text, number, long, most)}"]
        values += [f"i64 {value}" for pair in zip(extents, chunks, strict=True) for value in pair]
        context = f"%context.{number}"
        text.entry.append(f"  {context} = alloca [{len(values)} x i64]")
        for n, value in enumerate(values):
            place = text.emit_fresh(f"getelementptr i64, ptr {context}, i64 {n}")
            text.line(f"store {value}, ptr {place}, align 8")
        if self._fences:
            self._emit_fence(text)
        launch = self._runtime_function(text, state, runtime.LAUNCH)
        text.line(f"call void {launch}(ptr @task.{number}, ptr {context}, i64 {len(extents)}, i64 {most})")
        if needs_tiles(self._kernel.body):
            # This thread has run a chunk of its own, and given them up.
            text.line(configure(self._declarations))

    def _emit_counts(self, text: FunctionText, number: int, long: int, chunks: str) -> str:
        """Allocate a count of the pieces taken of each chunk of each long phase, and set it to zero."""
        if not long:
            return "null"
        counts = f"%counts.{number}"
        size = long * self._threads * COUNT_BYTES
        text.entry.append(f"  {counts} = alloca [{size} x i8], align {COUNT_BYTES}")
        used = size if long > 1 else text.emit_fresh(f"mul i64 {chunks}, {COUNT_BYTES}")
        self._declarations["@llvm.memset.p0.i64"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        text.line(f"call void @llvm.memset.p0.i64(ptr align {COUNT_BYTES} {counts}, i8 0, i64 {used}, i1 false)")
        return counts

    def _emit_largest(self, text: FunctionText, numbers: list[str]) -> str:
        largest, *others = dict.fromkeys(numbers)
        for number in others:
            more = text.emit_fresh(f"icmp sgt i64 {number}, {largest}")
            largest = text.emit_fresh(f"select i1 {more}, i64 {number}, i64 {largest}")
        return largest

    def _chunks(self, text: FunctionText, extent: str, threads: str) -> str:
        """The number of chunks of a phase: that of threads, or of iterations where these are fewer."""
        fewer = text.emit_fresh(f"icmp slt i64 {extent}, {threads}")
        return text.emit_fresh(f"select i1 {fewer}, i64 {extent}, i64 {threads}")

    def _runtime_function(self, text: FunctionText, state: str, slot: int) -> str:
        place = text.emit_fresh(f"getelementptr i64, ptr {state}, i64 {slot}")
        return text.emit_fresh(f"load ptr, ptr {place}")

    def _emit_phase(self, name: str, loop: lir.Loop, captured: list[str]) -> None:
        """The function that runs a part of a parallel loop."""
        scope = self._new_scope()
        for variable in captured:
            scope.variables[variable] = (SSAValue(f'%"x.{variable}"', INDEX), 0)
        crossing = _used_arrays(loop) & {a.name for a in self._kernel.arrays if a.kind in _REGISTER_KINDS}
        if crossing & _arrays_used_outside(self._kernel.body, loop):
            raise BuildError("register buffer crosses a parallel loop", ", ".join(sorted(crossing)))
        statements = Statements(scope, self._declarations, None)
        hi = self._indices.range(self._indices.form(loop.extent))[1]
        ends = SSAValue("%lo", INDEX), SSAValue("%hi", INDEX), (0, None if hi is None else max(hi - 1, 0))

        def run() -> None:
            statements.serial_loop(loop.var, *ends, loop.body)

        if loop.counter is None:
            run()
        else:
            statements.emit_counted(loop.counter, run)
        statements.counters.add_up()
        parameters = [*self._parameters(), *(f'i64 %"x.{variable}"' for variable in captured), "i64 %lo", "i64 %hi"]
        self._define_function(f"phase.{name}", parameters, scope, loop.body)
        plain = [parameter.replace(" noalias", "") for parameter in parameters[:-2]]
        self._functions.append(share_text(name, plain, loop))

    def _emit_task(self, number: int, phases: int, long: list[int], captured: list[str]) -> None:
        """The region's body for the pool: unpacks the context and runs a chunk of a phase."""
        values = [("ptr", _pointer_name(a)) for a in self._memory]
        values += [(memory_text(s.dtype), _scalar_name(s)) for s in self._kernel.scalars]
        values += [("i64", f'%"x.{name}"') for name in captured]
        lines = [
            line
            for slot, (type_, name) in enumerate([*values, ("ptr", "%workspace"), ("ptr", "%counts")])
            for line in _load_lines(slot, type_, name)
        ]
        lines.append(f"  %slice.at = mul i64 %chunk, {self._layout.slice}")
        lines.append("  %slice = getelementptr i8, ptr %workspace, i64 %slice.at")
        operands = [f"{type_} {name}" for type_, name in values]
        for n, array in enumerate(self._memory):
            if array.kind is ArrayKind.THREAD:
                offset = self._layout.shared + self._layout.offsets[array.name]
                lines.append(f"  %slice.{n} = getelementptr i8, ptr %slice, i64 {offset}")
                operands[n] = f"ptr %slice.{n}"
        labels = " ".join(f"i64 {n}, label %phase.{n}" for n in range(phases))
        lines.append(f"  switch i64 %phase, label %done [ {labels} ]")
        for n in range(phases):
            extent = len(values) + 2 + 2 * n
            bounds = [*_load_lines(extent, "i64", f"%extent.{n}"), *_load_lines(extent + 1, "i64", f"%chunks.{n}")]
            counts = long.index(n) * self._threads * COUNT_BYTES if n in long else 0
            texts = {"bounds": "\n".join(bounds), "operands": ", ".join(operands)}
            part = _CHUNK_TEXT.format(number=number, n=n, counts=counts, **texts)
            lines.append(part.rstrip())
        self._functions.append(_TASK_TEXT.format(number=number, body="\n".join(lines)))

    # --- the entry ---

    def _define_entry(self) -> None:
        arrays = {a.name: a for a in self._kernel.arrays}
        scalars = {s.name: s for s in self._kernel.scalars}
        parameters = [
            f"ptr {_pointer_name(arrays[name])}"
            if name in arrays
            else f"{memory_text(scalars[name].dtype)} {_scalar_name(scalars[name])}"
            for name in self._kernel.order
        ]
        outside = [a for a in self._memory if a.name not in self._layout.offsets]
        arguments = ", ".join(
            [f"ptr {_pointer_name(a)}" for a in outside]
            + [f"{memory_text(s.dtype)} {_scalar_name(s)}" for s in self._kernel.scalars]
        )
        check = ""
        if self._tiles:
            self._declarations.update(runtime.TILES_DECLARATIONS)
            check = runtime.TILES_CHECK
        if self._layout.total:
            self._declarations.update(runtime.WORKSPACE_DECLARATIONS)
            rest = runtime.WORKSPACE.format(arguments=arguments, size=self._layout.total)
        else:
            rest = runtime.NO_WORKSPACE.format(arguments=arguments)
        self._functions.append(
            f"define i32 @{ENTRY}({', '.join([*parameters, 'ptr %workspace'])}) nounwind {{\nentry:\n{check}{rest}}}\n"
        )


# Under `fastmath` LLVM would estimate the reciprocal of a square root, and have NaN for that of zero and of infinity.
_ESTIMATE_ATTRIBUTE = '"reciprocal-estimates"="!sqrt,!vec-sqrt"'
_REGISTER_KINDS = (ArrayKind.REGISTER, ArrayKind.TILE)

# Phases differ in how many chunks they have: a chunk that a phase lacks has nothing to do.
_TASK_TEXT = """\
define internal void @task.{number}(ptr %context, i64 %phase, i64 %chunk) nounwind {{
{body}
done:
  ret void
}}
"""
_CHUNK_TEXT = """\
phase.{n}:
{bounds}
  %there.{n} = icmp slt i64 %chunk, %chunks.{n}
  br i1 %there.{n}, label %run.{n}, label %done
run.{n}:
  %of.{n} = getelementptr i8, ptr %counts, i64 {counts}
  call void @share.{number}.{n}({operands}, i64 %extent.{n}, i64 %chunks.{n}, i64 %chunk, ptr %of.{n})
  ret void
"""


def _load_lines(slot: int, type_: str, name: str) -> list[str]:
    """A value of the context of a region."""
    place = f"%p.{slot}"
    return [
        f"  {place} = getelementptr i64, ptr %context, i64 {slot}",
        f"  {name} = load {type_}, ptr {place}, align 8",
    ]


def _pointer_name(array: Array) -> str:
    return f'%"a.{array.name}"'


def _scalar_name(scalar: Scalar) -> str:
    return f'%"s.{scalar.name}"'


def _has_streams(stmt: lir.LStmt) -> bool:
    """Whether a statement stores past the caches."""
    if isinstance(stmt, lir.Write):
        return stmt.streams
    return any(_has_streams(child) for child in stmt.children() if isinstance(child, lir.LStmt))


def _used_arrays(stmt: lir.LStmt) -> frozenset[str]:
    """The arrays that a statement reads or writes."""
    nodes = list(stmt.walk())
    return frozenset(n.array for n in nodes if isinstance(n, lir.Write)) | frozenset(
        n.buffer for n in nodes if isinstance(n, Load)
    )


def _arrays_used_outside(body: lir.LStmt, loop: lir.Loop) -> frozenset[str]:
    """The arrays used outside one loop of a body."""
    if body is loop:
        return frozenset()
    out = frozenset((body.array,)) if isinstance(body, lir.Write) else frozenset()
    for child in body.children():
        if isinstance(child, lir.LStmt):
            out |= _arrays_used_outside(child, loop)
        else:
            out |= frozenset(n.buffer for n in child.walk() if isinstance(n, Load))
    return out
