"""What one core does in a cycle, on data in registers and in its first cache.

The loops use volatile accesses, so that the compiler leaves each of them where it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from metasched.calibration.cycles import CycleCounter, Scratch
from metasched.calibration.machine_code import counted_loop, load_loop
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE, Target

# Enough independent multiply-adds for two a cycle of five cycles each, in sixteen registers.
_ACCUMULATORS = 12
_COPIES = 8
_SHORT_LOOP_ITERATIONS = 6
_RESULT_OFFSET = 8192  # bytes to where results go that are not loaded again


@dataclass(frozen=True)
class CoreLoops:
    """The loops of one core, in vectors of float32."""

    counter: CycleCounter
    scratch: Scratch

    @property
    def target(self) -> Target:
        return self.counter.target

    @property
    def lanes(self) -> int:
        return self.target.vector_bits // 32

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x float>"

    def operations(self) -> float:
        """Vector multiply-adds a cycle."""
        return _ACCUMULATORS / self._cycles(self._multiply_adds(_ACCUMULATORS))

    def operation_latency(self) -> float:
        """Cycles until a multiply-add can use the sum of the one before."""
        return self._cycles(self._multiply_adds(1))

    def loads(self) -> float:
        """Vector loads a cycle."""
        return _COPIES / self._cycles([line for n in range(_COPIES) for line in self._load(n)])

    def stores(self) -> float:
        """Vector stores a cycle."""
        return _COPIES / self._cycles([line for n in range(_COPIES) for line in self._store(n, "%x")])

    def memory_round_trip(self) -> float:
        """Cycles until a multiply-add can use what the one before it stored."""
        return self._cycles([*self._load(0), self._sum_line("%w", "%v.0"), *self._store(0, "%w")])

    def transfer(self) -> float:
        """Cycles of a vector that is loaded and stored again."""
        return self._cycles(self._copy_body()) / _COPIES

    def loop_overhead(self) -> float:
        """Cycles that an iteration takes longer than a copy of the same code, in loops of a few iterations."""
        copies = [
            line
            for n in range(_SHORT_LOOP_ITERATIONS)
            for line in (*self._load(n), *self._store(n, f"%v.{n}", _RESULT_OFFSET))
        ]
        rolled = load_loop(self._short_loop_text(), self.target, (ctypes.c_void_p, ctypes.c_int64))
        again = self.counter.iteration_cycles(lambda count: rolled(self.scratch.address, count))
        return max(again - self._cycles(copies), 0.0) / _SHORT_LOOP_ITERATIONS

    def masked_sum(self) -> float:
        """Cycles that a sum in memory waits longer for the one before where some of its lanes are masked."""
        masked = [
            *self._address(0),
            f"  %v.0 = call {self.vector} @llvm.masked.load.{self._suffix}.p0({self._masked_load_arguments('%p.0')})",
            self._sum_line("%w", "%v.0"),
            f"  call void @llvm.masked.store.{self._suffix}.p0({self.vector} %w, {self._mask_argument('%p.0')})",
        ]
        return max(self._cycles(masked) - self.memory_round_trip(), 0.0)

    def tail_overhead(self) -> float:
        """Cycles that copying a vector takes longer with a mask that has to be computed."""
        lanes = self.lanes
        iota = ", ".join(f"i32 {lane}" for lane in range(lanes))
        body = [
            "  %first = trunc i64 %i to i32",
            f"  %one = insertelement <{lanes} x i32> poison, i32 %first, i64 0",
            f"  %all = shufflevector <{lanes} x i32> %one, <{lanes} x i32> poison, <{lanes} x i32> zeroinitializer",
        ]
        none = f"{self.vector} zeroinitializer"
        for n in range(_COPIES):
            mask = f"ptr %p.{n}, i32 4, <{lanes} x i1> "
            body += [
                *self._address(n),
                f"  %at.{n} = add <{lanes} x i32> %all, <{iota}>",
                f"  %m.{n} = icmp sgt <{lanes} x i32> %at.{n}, <{', '.join([f'i32 {n}'] * lanes)}>",
                f"  %v.{n} = call {self.vector} @llvm.masked.load.{self._suffix}.p0({mask}%m.{n}, {none})",
                *self._store(n, f"%v.{n}", _RESULT_OFFSET),
            ]
        return max(self._cycles(body) - self._cycles(self._copy_body()), 0.0) / _COPIES

    def branch_overhead(self) -> float:
        """Cycles that copying a vector takes longer under a condition that mostly holds."""
        body: list[str] = []
        for n in range(_COPIES):
            body += [
                f"  %limit.{n} = load volatile i64, ptr %far",
                f"  %d.{n} = icmp slt i64 %limit.{n}, %i",
                f"  br i1 %d.{n}, label %skip.{n}, label %run.{n}",
                f"run.{n}:",
                *self._load(n),
                *self._store(n, f"%v.{n}", _RESULT_OFFSET),
                f"  br label %skip.{n}",
                f"skip.{n}:",
            ]
        text = counted_loop(["ptr %p"], body, entry=[*self._values(), *_FAR_POINTER]).replace(
            "[ %next, %body ]", f"[ %next, %skip.{_COPIES - 1} ]"
        )
        return max(self._text_cycles(text) - self._cycles(self._copy_body()), 0.0) / _COPIES

    # --- pieces of text

    @property
    def _suffix(self) -> str:
        return f"v{self.lanes}f32"

    def _values(self) -> list[str]:
        return [f"  %x = load volatile {self.vector}, ptr %p"]

    def _address(self, n: int) -> list[str]:
        return [f"  %p.{n} = getelementptr i8, ptr %p, i64 {n * CACHE_LINE}"]

    def _load(self, n: int) -> list[str]:
        return [*self._address(n), f"  %v.{n} = load volatile {self.vector}, ptr %p.{n}, align 4"]

    def _store(self, n: int, value: str, further: int = 0) -> list[str]:
        return [
            f"  %q.{n} = getelementptr i8, ptr %p, i64 {n * CACHE_LINE + further}",
            f"  store volatile {self.vector} {value}, ptr %q.{n}, align 4",
        ]

    def _copy_body(self) -> list[str]:
        return [line for n in range(_COPIES) for line in (*self._load(n), *self._store(n, f"%v.{n}", _RESULT_OFFSET))]

    def _sum_line(self, name: str, value: str) -> str:
        # Of what tends to one, so that no sum becomes as small or as large as to take longer.
        v = self.vector
        return f"  {name} = call {v} @llvm.fma.{self._suffix}({v} %half, {v} {value}, {v} %half)"

    def _multiply_adds(self, count: int) -> list[str]:
        v = self.vector
        body = [f"  %a.{k} = phi {v} [ %x, %entry ], [ %b.{k}, %body ]" for k in range(count)]
        return body + [self._sum_line(f"%b.{k}", f"%a.{k}") for k in range(count)]

    def _masked_load_arguments(self, pointer: str) -> str:
        return f"{self._mask_argument(pointer)}, {self.vector} zeroinitializer"

    def _mask_argument(self, pointer: str) -> str:
        lanes = ", ".join(f"i1 {'true' if lane <= self.lanes // 2 else 'false'}" for lane in range(self.lanes))
        return f"ptr {pointer}, i32 4, <{self.lanes} x i1> <{lanes}>"

    def _short_loop_text(self) -> str:
        body = [
            "  br label %short",
            "short:",
            "  %k = phi i64 [ 0, %body ], [ %k.next, %short ]",
            f"  %at = mul i64 %k, {CACHE_LINE}",
            "  %from = getelementptr i8, ptr %p, i64 %at",
            f"  %to = getelementptr i8, ptr %from, i64 {_RESULT_OFFSET}",
            f"  %v = load volatile {self.vector}, ptr %from, align 4",
            f"  store volatile {self.vector} %v, ptr %to, align 4",
            "  %k.next = add i64 %k, 1",
            f"  %k.more = icmp slt i64 %k.next, {_SHORT_LOOP_ITERATIONS}",
            "  br i1 %k.more, label %short, label %ended, !llvm.loop !0",
            "ended:",
        ]
        return counted_loop(["ptr %p"], body).replace("[ %next, %body ]", "[ %next, %ended ]")

    # --- running them

    def _cycles(self, body: Sequence[str]) -> float:
        v, suffix, lanes = self.vector, self._suffix, self.lanes
        last = [line.split(" = ")[0].strip() for line in body if " = call <" in line and "fma" in line]
        done = [f"  store volatile {v} {name}, ptr %far" for name in last if name.startswith("%b.")]
        declarations = [
            f"declare {v} @llvm.fma.{suffix}({v}, {v}, {v})",
            f"declare {v} @llvm.masked.load.{suffix}.p0(ptr, i32, <{lanes} x i1>, {v})",
            f"declare void @llvm.masked.store.{suffix}.p0({v}, ptr, i32, <{lanes} x i1>)",
        ]
        half = [f"  %half = fmul {v} %x, <{', '.join(['float 5.0e-01'] * lanes)}>"]
        entry = [*self._values(), *_FAR_POINTER, *half]
        return self._text_cycles(counted_loop(["ptr %p"], body, entry=entry, done=done, declarations=declarations))

    def _text_cycles(self, text: str) -> float:
        loop = load_loop(text, self.target, (ctypes.c_void_p, ctypes.c_int64))
        return self.counter.iteration_cycles(lambda count: loop(self.scratch.address, count))


_FAR_POINTER = (f"  %far = getelementptr i8, ptr %p, i64 {2 * _RESULT_OFFSET}",)
