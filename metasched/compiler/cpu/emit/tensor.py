"""The vocabulary of emitters of tensor intrinsics: operands as vectors, and calls of LLVM's intrinsics.

An emitter is `emit(operands)` in `metasched/compiler/cpu/intrinsics/NAME.py`; what the intrinsic computes is in
`metasched/schedule/intrinsics/NAME.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from types import ModuleType

from metasched.compiler import lir
from metasched.compiler.cpu.emit.expressions import Expressions
from metasched.compiler.cpu.emit.scope import Lane
from metasched.compiler.cpu.emit.tiles import TileRegisters
from metasched.compiler.cpu.emit.types import SSAValue, constant, type_text
from metasched.dtypes import DType, integer_of_size
from metasched.errors import BuildError
from metasched.ir.integers.linear import Linear
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Var
from metasched.schedule.tensor import intrinsics
from metasched.support.declared_files import DeclaredFiles, constants
from metasched.target import Target

_ELEMENT_VAR = "tensor element"
_BYTE_DOTS_LLVM_RELEASE = 22


def llvm_release() -> int:
    """The release of LLVM that will read what is emitted."""
    import llvmlite.binding as llvm

    return int(llvm.llvm_version_info[0])


class TensorOperands:
    """The operands of one use of an intrinsic, by the names of its program."""

    def __init__(self, emitter: Expressions, tiles: TileRegisters, stmt: lir.IntrinsicCall) -> None:
        self._emitter = emitter
        self._tiles = tiles
        self.intrinsic = intrinsics()[stmt.name]
        self._patterns = {x.buffer: x for x in self.intrinsic.operands}
        self._operands = dict(zip(self._patterns, (stmt.output, *stmt.inputs), strict=True))

    # --- operands ---

    def stride(self, name: str, axis: int) -> int:
        """Elements between neighbours along an axis."""
        return self._operands[name].strides[axis]

    @property
    def lanes(self) -> int:
        """Elements along the last axis of the output, which runs along vector lanes."""
        return self.intrinsic.lanes

    def load(self, name: str, lanes: int = 0, offset: int = 0) -> SSAValue:
        """`lanes` consecutive elements, by default all along the last axis, from `offset` elements behind the first."""
        operand = self._operands[name]
        with self._lanes(lanes or self._group_size(name)):
            return self._emitter.load(operand.first.buffer, self._index(operand, offset))

    def store(self, name: str, value: SSAValue, offset: int = 0) -> None:
        """Write consecutive elements, from `offset` elements behind the first."""
        operand = self._operands[name]
        with self._lanes(value.width):
            self._emitter.store(operand.first.buffer, self._index(operand, offset), value)

    def groups(self, name: str) -> SSAValue:
        """For each lane of the output the elements along the operand's last axis, side by side; those of neighbouring
        lanes are one stride of its first axis apart."""
        count, size = self.lanes, self._group_size(name)
        stride, dtype = self.stride(name, 0), self._operands[name].first.type
        if stride == size:
            return self.load(name, count * size)
        word = _group_type(dtype, size)
        out = SSAValue("poison", word, count)
        for n in range(count):
            group = self._cast(self.load(name, size, n * stride), word, 0)
            text = self._emitter.text.emit_pure(f"insertelement {out.typed}, {group.typed}, i64 {n}")
            out = SSAValue(text, word, count)
        return self._cast(out, dtype, count * size)

    def repeated(self, name: str) -> SSAValue:
        """The elements along the operand's last axis, for each lane of the output once, side by side."""
        count, size = self.lanes, self._group_size(name)
        dtype = self._operands[name].first.type
        word = _group_type(dtype, size)
        group = self._cast(self.load(name, size), word, 0)
        return self._cast(self._emitter.arith.widen(group, count), dtype, count * size)

    def interleaved(self, name: str) -> SSAValue:
        """For each lane of the output the elements along the operand's first axis, side by side."""
        operand, count = self._operands[name], self.intrinsic.first_extent(self._patterns[name])
        with self._lanes(self.lanes):
            return self._emitter.load_rows(operand.first.buffer, self._index(operand, 0), count, self.stride(name, 0))

    # --- arithmetic ---

    def call(self, symbol: str, result: DType, *args: SSAValue) -> SSAValue:
        """A call of an LLVM intrinsic that returns one vector of `result`, as wide as the intrinsic's file says."""
        width = self.intrinsic.vector_bits // result.bits
        type_ = type_text(result, width)
        passed = [self._argument(a) for a in args]
        self._emitter.declarations[f"@{symbol}"] = f"declare {type_} @{symbol}({', '.join(t for t, _ in passed)})"
        text = self._emitter.text.emit_pure(f"call {type_} @{symbol}({', '.join(f'{t} {v}' for t, v in passed)})")
        return SSAValue(text, result, width)

    def tiles(self, symbol: str, output: str, left: str, right: str) -> None:
        """`output += left . right` by an LLVM intrinsic on three tile registers."""
        self._tiles.multiply(symbol, *(self._operands[name] for name in (output, left, right)))

    def binary(self, op: BinOp, a: SSAValue, b: SSAValue) -> SSAValue:
        """Lane by lane."""
        return self._emitter.arith.binary(op, a, b)

    def flipped(self, value: SSAValue, bits: int) -> SSAValue:
        """The value with the given bits of each lane flipped."""
        mask = constant(bits, value.dtype, value.width)
        return SSAValue(self._emitter.text.emit_pure(f"xor {value.typed}, {mask.text}"), value.dtype, value.width)

    def dot_argument(self, value: SSAValue) -> SSAValue:
        """Bytes as LLVM's intrinsics of dot products of bytes take them: as such, or before LLVM 22 as 32-bit words.

        LLVM 22 takes words too, by upgrading them, but then moves arithmetic on broadcast bytes out of the vectors.
        """
        if llvm_release() >= _BYTE_DOTS_LLVM_RELEASE:
            return value
        return self._cast(value, DType.I32, self.intrinsic.vector_bits // DType.I32.bits)

    # --- inside ---

    def _group_size(self, name: str) -> int:
        return self.intrinsic.last_extent(self._patterns[name])

    def _argument(self, value: SSAValue) -> tuple[str, str]:
        """Type and text of what an LLVM intrinsic takes: bf16 is a type of its own there, and bits elsewhere."""
        if value.dtype is not DType.BF16:
            return value.type, value.text
        type_ = f"<{value.width} x bfloat>"
        return type_, self._emitter.text.emit_pure(f"bitcast {value.typed} to {type_}")

    def _lanes(self, count: int) -> AbstractContextManager[None]:
        return self._emitter.scope.enter_lanes(Lane(_ELEMENT_VAR, count), Linear(0))

    def _index(self, operand: lir.Operand, offset: int) -> Expr:
        first = operand.first.indices[0]
        return Binary(BinOp.ADD, Binary(BinOp.ADD, first, Var(_ELEMENT_VAR)), Const(offset))

    def _cast(self, value: SSAValue, dtype: DType, width: int) -> SSAValue:
        text = self._emitter.text.emit_pure(f"bitcast {value.typed} to {type_text(dtype, width)}")
        return SSAValue(text, dtype, width)


def _group_type(dtype: DType, count: int) -> DType:
    """The integer type with as many bits as `count` elements."""
    return integer_of_size(dtype.bits * count)


Emitter = Callable[[TensorOperands], None]


def _emitter(name: str, module: ModuleType) -> Emitter:
    constants("emitter", name, module, {})  # what there is to say of an intrinsic is in its description
    emit = getattr(module, "emit", None)
    if not inspect.isfunction(emit) or len(inspect.signature(emit).parameters) != 1:
        raise TypeError(f"{module.__name__} must define `emit(operands)`")
    return emit


FILES = DeclaredFiles("metasched.compiler.cpu.intrinsics", "emitter", _emitter)


@cache
def emitters() -> Mapping[str, Emitter]:
    """The emitter of every tensor intrinsic by name, a file each.

    Raises TypeError where descriptions and emitters are not one to one.
    """
    found = FILES.load()
    apart = sorted(found.keys() ^ intrinsics().keys())
    if apart:
        lacks = "description" if apart[0] in found else "emitter"
        raise TypeError(f"tensor intrinsic `{apart[0]}` has no {lacks}: it is a pair of files of one name")
    return found


def require_features(kernel: lir.LoopProgram, target: Target) -> None:
    """Raise BuildError where a kernel uses an intrinsic that the target does not have."""
    for name in dict.fromkeys(node.name for node in kernel.walk() if isinstance(node, lir.IntrinsicCall)):
        missing = sorted(intrinsics()[name].features - target.features)
        if missing:
            raise BuildError(
                f"target lacks {missing[0]}",
                f"`{name}` needs {', '.join(missing)}, and the target is {target.name}",
                hint=f"leave `tensorize` with `{name}` out of the schedule, or start from another trace",
            )
