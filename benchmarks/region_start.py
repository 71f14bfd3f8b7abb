"""What it costs to start a parallel region, and a barrier inside one, against Numba's OpenMP layer.

A chunk is a loop of so many pauses. In compiled code, regions follow one another at once; `start_us` is the time of a
region less that of one chunk alone. Each side is a process of its own (`python -m benchmarks.region_start SIDE THREADS
PHASES PAUSES` prints microseconds); the sides take turns, and each gives the median of blocks.
"""

from __future__ import annotations

import ctypes
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from enum import Enum

from benchmarks.openmp import openmp_launch
from benchmarks.registry import Options, Result

_PHASES = 6
_PAUSES = (0, 50, 200, 1000)
_ROUNDS = 5
_BLOCKS = 50
_BLOCK_S = 2e-3
_CHUNK = """
declare void @llvm.x86.sse2.pause()

define void @chunk(ptr %context, i64 %phase, i64 %chunk) noinline {{
entry:
  br label %test
test:
  %n = phi i64 [ 0, %entry ], [ %next, %again ]
  %more = icmp slt i64 %n, {pauses}
  br i1 %more, label %again, label %done
again:
  %next = add i64 %n, 1
  call void @llvm.x86.sse2.pause()
  br label %test
done:
  ret void
}}
"""


class Side(Enum):
    """What runs the regions; the value says so."""

    OURS = "this package"
    OPENMP = "Numba's OpenMP layer"
    ALONE = "one chunk without a region"


def run(options: Options) -> Iterator[Result]:
    for pauses in _PAUSES[: 2 if options.quick else None]:
        for phases in (1, _PHASES):
            times = _in_turns(options, phases, pauses)
            chunk = phases * times[Side.ALONE]
            what = f"region of {options.threads} chunks" if phases == 1 else f"region of {phases} phases"
            yield {
                "case": f"{what} of {times[Side.ALONE]:.2f} us",
                "ours_ms": times[Side.OURS] / 1e3,
                "peer": Side.OPENMP.value if phases == 1 else f"{phases} regions of {Side.OPENMP.value}",
                "peer_ms": times[Side.OPENMP] / 1e3,
                "ratio": times[Side.OPENMP] / times[Side.OURS],
                "start_us": (times[Side.OURS] - chunk) / phases,
                "peer_start_us": (times[Side.OPENMP] - chunk) / phases,
            }


def _in_turns(options: Options, phases: int, pauses: int) -> dict[Side, float]:
    samples: dict[Side, list[float]] = {side: [] for side in Side}
    for _ in range(1 if options.quick else _ROUNDS):
        for side, found in samples.items():
            command = [sys.executable, "-m", "benchmarks.region_start", side.name]
            numbers = [str(n) for n in (options.threads, phases, pauses)]
            done = subprocess.run([*command, *numbers], capture_output=True, text=True, check=True)
            found.append(float(done.stdout))
    return {side: statistics.median(found) for side, found in samples.items()}


def time_region(side: Side, threads: int, phases: int, pauses: int) -> float:
    """Microseconds of a region: the median over blocks of many."""
    from metasched.calibration.regions import REPEAT_TEXT, launch_address
    from metasched.compiler.cpu.codegen import LoadedCode, compile_text
    from metasched.target import Target

    code = LoadedCode(compile_text(_CHUNK.format(pauses=pauses) + REPEAT_TEXT, Target.detect(threads=1)))
    launch, _keep = openmp_launch() if side is Side.OPENMP else (code.address("alone"), None)
    if side is Side.OURS:
        launch = launch_address()
    repeat = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)(code.address("repeat"))

    def block(calls: int) -> float:
        start = time.perf_counter()
        repeat(launch, calls, phases, threads)
        return time.perf_counter() - start

    calls = max(1, int(_BLOCK_S / (block(100) / 100)))
    return statistics.median(block(calls) / calls for _ in range(_BLOCKS)) * 1e6


if __name__ == "__main__":
    print(time_region(Side[sys.argv[1]], *(int(text) for text in sys.argv[2:])))
