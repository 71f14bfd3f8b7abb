"""AMX's tile registers: eight of 16 rows of 64 bytes, numbered in the program text.

Accumulators have the first ones (see `metasched.compiler.lower.tiles`); operands take the others in turn, and one that
is in a register already is not loaded again. Every tile is a whole one, so that the configuration is one constant for
all kernels. It is loaded where a function begins, a parallel loop's for each of its chunks, and given up where it ends.
"""

from __future__ import annotations

from metasched.compiler import lir
from metasched.compiler.cpu.emit.accesses.memory import Memory
from metasched.compiler.lir import ArrayKind
from metasched.compiler.policy import TILE_REGISTERS
from metasched.errors import BuildError
from metasched.ir.node_base import Node
from metasched.ir.nodes import Load
from metasched.schedule.tensor import intrinsics

_TILE_ROWS = 16
_ROW_BYTES = 64
_CONFIG_NAME = "metasched_tiles"
_CALL_PARAMETERS = {
    "ldtilecfg": "ptr",
    "tilerelease": "",
    "tilezero": "i8 immarg",
    "tileloadd64": "i8 immarg, ptr, i64",
    "tilestored64": "i8 immarg, ptr, i64",
}


def _config_bytes() -> str:
    """The configuration: palette 1; bytes in a row from byte 16 on, two for each register; rows from byte 48 on."""
    data = bytearray(64)
    data[0] = 1
    for n in range(TILE_REGISTERS):
        data[16 + 2 * n] = _ROW_BYTES
        data[48 + n] = _TILE_ROWS
    return ", ".join(f"i8 {byte}" for byte in data)


def _call_text(declarations: dict[str, str], name: str, arguments: str = "") -> str:
    symbol = f"@llvm.x86.{name}"
    declarations[symbol] = f"declare void {symbol}({_CALL_PARAMETERS[name]})"
    return f"call void {symbol}({arguments})"


def configure(declarations: dict[str, str]) -> str:
    """The instruction that makes tile registers usable; what is in them is lost."""
    declarations[f"@{_CONFIG_NAME}"] = f"@{_CONFIG_NAME} = internal constant [64 x i8] [{_config_bytes()}], align 64"
    return _call_text(declarations, "ldtilecfg", f"ptr @{_CONFIG_NAME}")


def release(declarations: dict[str, str]) -> str:
    """The instruction that gives tile registers up, so that switching threads need not save them."""
    return _call_text(declarations, "tilerelease")


def uses_tiles(node: Node) -> bool:
    """Whether tile registers are used anywhere in a statement or a kernel."""
    return any(_is_on_tiles(inside) for inside in node.walk())


def needs_tiles(stmt: lir.LStmt) -> bool:
    """Whether a statement uses tile registers, parallel loops inside it aside."""
    if isinstance(stmt, lir.Loop) and stmt.mode is lir.LoopMode.PARALLEL:
        return False
    return _is_on_tiles(stmt) or any(needs_tiles(child) for child in stmt.children() if isinstance(child, lir.LStmt))


class TileRegisters:
    """What is in the tile registers at a point of a function."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        kinds = [s.array for s in memory.scope.arrays.values() if s.array.kind is ArrayKind.TILE]
        self._first = max((a.size // lir.TILE_ELEMENTS for a in kinds), default=0)
        self._label = ""
        # Registers by what was loaded, the one that was used last at the end.
        self._loaded: dict[tuple[object, ...], int] = {}

    def forget(self, array: str) -> None:
        """An array has been written."""
        self._loaded = {key: number for key, number in self._loaded.items() if key[0] != array}

    def move_tile(self, stmt: lir.TileMove) -> None:
        """Load an accumulator, clear it, or store it."""
        to = self._accumulator_register(stmt.target)
        if to is None:
            assert stmt.source is not None
            number = self._accumulator_register(stmt.source)
            assert number is not None
            self._store(number, stmt.target)
        elif stmt.source is None:
            self._emit("tilezero", f"i8 {to}")
        else:
            self._load(to, stmt.source)

    def multiply(self, symbol: str, output: lir.Operand, left: lir.Operand, right: lir.Operand) -> None:
        """`output += left . right` by an instruction on three tile registers."""
        a = self._operand_register(left, ())
        b = self._operand_register(right, (a,))
        number = self._accumulator_register(output)
        c = self._free_register((a, b)) if number is None else number
        if number is None:
            self._load(c, output)
        self._memory.declarations[f"@{symbol}"] = f"declare void @{symbol}(i8 immarg, i8 immarg, i8 immarg)"
        self._memory.text.line(f"call void @{symbol}(i8 {c}, i8 {a}, i8 {b})")
        if number is None:
            self._store(c, output)

    # --- registers ---

    def _accumulator_register(self, operand: lir.Operand) -> int | None:
        """The register of an operand that is always in one."""
        array = self._memory.scope.arrays[operand.first.buffer].array
        if array.kind is not ArrayKind.TILE:
            return None
        place = self._memory.scope.indices.form(operand.first.indices[0])
        if place.terms:
            raise BuildError("tile register not constant", f"`{array.name}`")
        return place.const // lir.TILE_ELEMENTS

    def _operand_register(self, operand: lir.Operand, held: tuple[int, ...]) -> int:
        if self._label != self._memory.text.label:
            # Another basic block: it can be reached in other ways.
            self._label, self._loaded = self._memory.text.label, {}
        form = self._memory.scope.indices.form(operand.first.indices[0])
        key = (operand.first.buffer, form, operand.strides)
        number = self._loaded.pop(key, None)
        if number is None:
            number = self._free_register(held)
            self._load(number, operand)
        self._loaded[key] = number
        return number

    def _free_register(self, held: tuple[int, ...]) -> int:
        """A register for an operand: an unused one, or else the one whose last use is longest ago."""
        taken = {*self._loaded.values(), *held}
        for number in range(self._first, TILE_REGISTERS):
            if number not in taken:
                return number
        oldest = next(key for key, number in self._loaded.items() if number not in held)
        return self._loaded.pop(oldest)

    # --- instructions ---

    def _emit(self, name: str, arguments: str) -> None:
        self._memory.text.line(_call_text(self._memory.declarations, name, arguments))

    def _load(self, number: int, operand: lir.Operand) -> None:
        self._emit("tileloadd64", f"i8 {number}, {self._row_arguments(operand)}")

    def _store(self, number: int, operand: lir.Operand) -> None:
        self._emit("tilestored64", f"i8 {number}, {self._row_arguments(operand)}")
        self._memory.text.known.forget(operand.first.buffer)
        self.forget(operand.first.buffer)

    def _row_arguments(self, operand: lir.Operand) -> str:
        """The address of the first row, and the bytes from one row to the next."""
        first: Load = operand.first
        storage = self._memory.scope.arrays[first.buffer]
        address = self._memory.pointer(storage, self._memory.scope.indices.form(first.indices[0]))
        return f"ptr {address}, i64 {operand.strides[0] * storage.array.dtype.bytes}"


def _is_on_tiles(node: Node) -> bool:
    return isinstance(node, lir.TileMove) or (isinstance(node, lir.IntrinsicCall) and intrinsics()[node.name].tiles)
