"""How right the hand-made estimate is about register tiles: cycles of small nests, on one core, beside what it says.

130 nests that the first two caches hold: products in tiles of several shapes, with operands that are neighbours in
memory, broadcast or gathered, under masks, with short and long reductions, sums and maxima in lanes and in rows, math
functions. A line each, then the mean size of the error by kind, in log2.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as product_of
from math import log2, prod

import numpy as np

import metasched as ms
from benchmarks.registry import Options, Result
from metasched.calibration.cycles import CycleCounter
from metasched.cost.expectation import expectation_of
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Func
from metasched.measure.compiling import compile_func
from metasched.measure.workers.load import LoadedKernel
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target

_ALIGN = 64
_SAMPLE_S = 3e-4
_QUICK_EVERY = 12
_TILES = ((1, 1), (1, 4), (2, 2), (4, 1), (4, 2), (6, 4), (8, 2), (14, 1), (14, 2), (8, 4))
_ROWS = ((7, 49), (64, 64), (32, 256), (16, 1000))
_VALUES = ("A[i, j] + B[i, j]", "A[i, j] / B[i, j]", "max(A[i, j], B[i, j])", "A[i, j] * rsqrt(S[i])")
_FUNCTIONS = ("exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "tanh", "sigmoid", "erf", "sqrt", "rsqrt")
_READS = {"rows": "B[k, j]", "pairs": "B[k, 2*j]", "columns": "B[j, k]"}
_SHAPES = {"rows": "K, N", "pairs": "K, 2*N", "columns": "N, K"}


@dataclass(frozen=True)
class Nest:
    """A scheduled program that is timed; what it is says `name`."""

    kind: str
    name: str
    schedule: ms.Schedule


def product(rows: int, width: int, depth: int, reads: str = "rows", repeated: int = 8) -> ms.Schedule:
    """A product whose register tile has `rows` rows of `width` elements, `repeated` times, reduced over `depth`."""
    program = ms.parse_program(
        f"program product[M={rows * repeated}, N={width}, K={depth}](A: f32[M, K], B: f32[{_SHAPES[reads]}])"
        f" -> C: f32[M, N]:\n    C[i, j] = sum[k](A[i, k] * {_READS[reads]})\n"
    )
    schedule = ms.Schedule(program)
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    outer, inner = schedule.split(i, [None, rows])
    schedule.reorder(outer, k, inner, j)
    schedule.vectorize(j, lanes=16)
    schedule.unroll(inner)
    schedule.annotate(block, "unroll_limit", 512)
    return schedule


def reduction(reducer: str, rows: int, depth: int, lanes: int) -> ms.Schedule:
    """Sums or maxima of rows, in vectors of `lanes` along them; 1 is scalar code."""
    program = ms.parse_program(
        f"program reduction[M={rows}, K={depth}](A: f32[M, K]) -> C: f32[M]:\n    C[i] = {reducer}[k](A[i, k])\n"
    )
    schedule = ms.Schedule(program)
    if lanes > 1:
        schedule.vectorize(schedule.get_loops(schedule.get_block("C"))[1], lanes=lanes)
    return schedule


def elementwise(value: str) -> ms.Schedule:
    """A function of `A[i, j]`, `B[i, j]` and the rows' `S[i]`, 32 rows of 64, in vectors."""
    given = [
        f"{name}: f32[{shape}]" for name, shape in (("A", "M, N"), ("B", "M, N"), ("S", "M")) if f"{name}[" in value
    ]
    program = ms.parse_program(
        f"program elementwise[M=32, N=64]({', '.join(given)}) -> C: f32[M, N]:\n    C[i, j] = {value}\n"
    )
    schedule = ms.Schedule(program)
    schedule.vectorize(schedule.get_loops(schedule.get_block("C"))[1], lanes=16)
    return schedule


def nests() -> Iterator[Nest]:
    """All that are timed."""
    yield from _products()
    for reducer, (rows, depth), lanes in product_of(("sum", "max"), _ROWS, (1, 16, 64)):
        yield Nest(
            "reductions", f"{reducer} of {rows} rows of {depth}, {lanes} lanes", reduction(reducer, rows, depth, lanes)
        )
    for value in (*_VALUES, *(f"{function}(A[i, j])" for function in _FUNCTIONS)):
        yield Nest("elementwise", value, elementwise(value))


def _products() -> Iterator[Nest]:
    for depth, (rows, vectors) in product_of((4, 16, 64, 256), _TILES):
        yield Nest("tiles", f"{rows} x {vectors} vectors, over {depth}", product(rows, 16 * vectors, depth))
    for reads, (rows, vectors) in product_of(("pairs", "columns"), _TILES[:7]):
        name = f"{rows} x {vectors} vectors of {reads}, over 32"
        yield Nest("gathers", name, product(rows, 16 * vectors, 32, reads))
    for width, rows, depth in product_of((3, 7, 13, 15, 20, 31), (1, 4, 8), (9, 64)):
        yield Nest("masks", f"{rows} rows of {width}, over {depth}", product(rows, width, depth))


def run(options: Options) -> Iterator[Result]:
    target = Target.detect(threads=1)
    counter = CycleCounter(target)
    errors: dict[str, list[float]] = defaultdict(list)
    for number, nest in enumerate(nests()):
        if options.quick and number % _QUICK_EVERY:
            continue
        func = nest.schedule.func
        estimate, measured = expectation_of(func, target).cycles, cycles_of(func, target, counter)
        errors[nest.kind].append(log2(estimate / measured))
        yield {"case": nest.name, "kind": nest.kind, "expected": estimate, "cycles": measured}
    for kind, found in errors.items():
        error = statistics.fmean(abs(each) for each in found)
        yield {"case": f"all {kind}", "nests": len(found), "error": error, "bias": statistics.fmean(found)}


def cycles_of(func: Func, target: Target, counter: CycleCounter) -> float:
    """Cycles of a call, in a compiled loop, on zeros."""
    artefact, code = compile_func(func, target, Stopwatch())
    sizes = [prod(as_int(extent) or 1 for extent in b.shape) * b.dtype.bytes for b in (*func.inputs, *func.outputs)]
    held = [np.zeros(size + _ALIGN, np.uint8) for size in (*sizes, artefact.workspace_bytes)]
    *places, workspace = (array.ctypes.data + -array.ctypes.data % _ALIGN for array in held)
    kernel = LoadedKernel(artefact, code).bind(places, workspace)
    calls = max(2, int(_SAMPLE_S / max(kernel.run(2) / 2, 1e-8)))
    return counter.least_call_cycles(lambda: kernel.run(calls)) / calls
