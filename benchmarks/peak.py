"""What this machine can do at most: multiply-adds in registers, and bytes through memory. Other figures divide by it.

The loops are LLVM text, compiled by the code generator that kernels use. Bandwidth counts the bytes that the program
names: a store that is not non-temporal also reads its line first, which is not counted.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.registry import Options, Result
from metasched.calibration.machine_code import counted_loop, load_loop
from metasched.support.messages import counted
from metasched.target import Target

_MIB = 1 << 20
# An accumulator is ready four or five cycles after it is used, at two multiply-adds a cycle.
_ACCUMULATORS = 24
_SAMPLES = 15


@dataclass(frozen=True)
class Stream:
    """A loop over large arrays: how many it reads and writes, and how it stores."""

    name: str
    reads: int
    writes: int
    non_temporal: bool = False


STREAMS = (
    Stream("read", 1, 0),
    Stream("write", 0, 1),
    Stream("write, non-temporal", 0, 1, non_temporal=True),
    Stream("copy", 1, 1),
    Stream("copy, non-temporal", 1, 1, non_temporal=True),
    Stream("add", 2, 1),
    Stream("add, non-temporal", 2, 1, non_temporal=True),
)


def run(options: Options) -> Iterator[Result]:
    target = Target.detect()
    threads = sorted({1, options.threads})
    for bits in (32, 64):
        yield from _arithmetic(bits, target, threads, options)
    for stream in STREAMS:
        yield from _bandwidth(stream, target, threads, options)


@dataclass(frozen=True)
class Limit:
    """A loop that does nothing but reach a limit: a call in every thread does `work` operations or bytes."""

    work: float
    threads: int
    loop: Callable[[int], object]  # of the number of the thread

    def samples(self, count: int) -> list[float]:
        """Seconds of calls in every thread at once."""
        return [_run_together(self.threads, self.loop) for _ in range(count)]

    def rate(self, seconds: float) -> float:
        """10^9 units a second: GFLOP/s, or GB/s."""
        return self.work / seconds / 1e9

    def measure(self, options: Options) -> float:
        return self.rate(statistics.median(self.samples(3 if options.quick else _SAMPLES)))


def _arithmetic(bits: int, target: Target, threads: list[int], options: Options) -> Iterator[Result]:
    lanes = target.vector_bits // bits
    for n in threads:
        gflops = multiply_adds(bits, n, target, options).measure(options)
        yield {"case": f"multiply-add f{bits}, {_threads(n)}", "cpu": target.name, "lanes": lanes, "gflops": gflops}


def multiply_adds(bits: int, threads: int, target: Target, options: Options) -> Limit:
    """Multiply-adds of `bits`-wide floats in registers, two operations each."""
    lanes = target.vector_bits // bits
    function = load_loop(_multiply_adds(lanes, bits), target, (ctypes.c_int64,))
    count = 20_000 if options.quick else 4_000_000
    return Limit(2.0 * lanes * _ACCUMULATORS * count * threads, threads, lambda _: function(count))


def _bandwidth(stream: Stream, target: Target, threads: list[int], options: Options) -> Iterator[Result]:
    for n in threads:
        gb_per_s = bandwidth(stream, n, target, options).measure(options)
        mib = _stream_bytes(options) // _MIB
        yield {"case": f"{stream.name}, {_threads(n)}", "cpu": target.name, "mib": mib, "gb_per_s": gb_per_s}


def bandwidth(stream: Stream, threads: int, target: Target, options: Options) -> Limit:
    """A pass over large arrays, in bytes."""
    size = _stream_bytes(options)
    arrays = [np.ones(size // 4 + 64, np.float32) for _ in range(3)]
    starts = [a.ctypes.data + -a.ctypes.data % 64 for a in arrays]
    function = load_loop(_stream(stream, target.vector_bits // 32), target, (ctypes.c_void_p,) * 3 + (ctypes.c_int64,))
    part = size // threads // 4096 * 4096

    def loop(thread: int, _keep: object = arrays) -> None:
        function(*(start + thread * part for start in starts), part // 4)

    return Limit((stream.reads + stream.writes) * part * threads, threads, loop)


def _stream_bytes(options: Options) -> int:
    return (4 if options.quick else 256) * _MIB


def _threads(n: int) -> str:
    return counted(n, "thread")


def _run_together(threads: int, work: Callable[[int], object]) -> float:
    """Seconds of one call of `work` in every thread at once."""
    barrier = threading.Barrier(threads + 1)

    def body(thread: int) -> None:
        barrier.wait()
        work(thread)
        barrier.wait()

    pool = [threading.Thread(target=body, args=(n,)) for n in range(threads)]
    for thread in pool:
        thread.start()
    barrier.wait()
    start = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - start
    for thread in pool:
        thread.join()
    return seconds


def _multiply_adds(lanes: int, bits: int) -> str:
    """`n` rounds of independent multiply-adds on vectors in registers."""
    scalar = "float" if bits == 32 else "double"
    vector, suffix = f"<{lanes} x {scalar}>", f"v{lanes}f{bits}"
    every = range(_ACCUMULATORS)
    body = [f"  %a.{k} = phi {vector} [ zeroinitializer, %entry ], [ %b.{k}, %body ]" for k in every]
    body += [f"  %b.{k} = call {vector} @llvm.fma.{suffix}({vector} %x, {vector} %x, {vector} %a.{k})" for k in every]
    done: list[str] = []
    total = "%b.0"
    for k in range(1, _ACCUMULATORS):
        done.append(f"  %c.{k} = fadd {vector} {total}, %b.{k}")
        total = f"%c.{k}"
    done.append(f"  %one = extractelement {vector} {total}, i64 0")
    done.append("  %result = fpext float %one to double" if bits == 32 else "  %result = fadd double %one, 0.0")
    entry = [
        f"  %first = sitofp i64 %n to {scalar}",
        f"  %seed = insertelement {vector} poison, {scalar} %first, i64 0",
        f"  %x = shufflevector {vector} %seed, {vector} poison, <{lanes} x i32> zeroinitializer",
    ]
    return counted_loop(
        (),
        body,
        entry=entry,
        done=done,
        result="%result",
        declarations=[f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})"],
    )


def _stream(stream: Stream, lanes: int) -> str:
    """A pass over `n` floats of each array, four vectors at a time."""
    vector, unroll = f"<{lanes} x float>", 4
    body = [f"  %s = phi {vector} [ zeroinitializer, %entry ], [ %s.{unroll}, %body ]"]
    last = "%s"
    hint = ", !nontemporal !2" if stream.non_temporal else ""
    for u in range(unroll):
        body.append(f"  %at.{u} = add i64 %i, {u * lanes}")
        value = "%s"
        for r in range(stream.reads):
            body.append(f"  %p.{u}.{r} = getelementptr float, ptr %x{r}, i64 %at.{u}")
            body.append(f"  %v.{u}.{r} = load {vector}, ptr %p.{u}.{r}, align 64")
            value = f"%v.{u}.{r}"
        if stream.reads == 2:
            body.append(f"  %sum.{u} = fadd {vector} %v.{u}.0, %v.{u}.1")
            value = f"%sum.{u}"
        if stream.writes:
            body.append(f"  %q.{u} = getelementptr float, ptr %x2, i64 %at.{u}")
            body.append(f"  store {vector} {value}, ptr %q.{u}, align 64{hint}")
            body.append(f"  %s.{u + 1} = fadd {vector} {last}, zeroinitializer")
        else:
            body.append(f"  %s.{u + 1} = fadd {vector} {last}, {value}")
        last = f"%s.{u + 1}"
    return counted_loop(
        [f"ptr noalias %x{n}" for n in range(3)],
        body,
        step=unroll * lanes,
        done=[f"  %one = extractelement {vector} {last}, i64 0", "  %result = fpext float %one to double"],
        result="%result",
    )
