"""Transpositions in registers: whole runs are loaded and interleaved; nothing is gathered, nor read beyond arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest

from metasched.compiler.cpu.emit.accesses.transposed_loads import run_length, transpose_rows
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.lower import lower
from metasched.dtypes import DType
from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.lir_runner import Guarded

HOST = Target.detect(threads=1)
PLAIN = "program t[N=32, M=16, T=f32](A: {T}[N, M]) -> B: {T}[M, N]:\n    B[j, i] = A[i, j]"
SUM = "program t[N=32, M=16](A: {T}[N, M], X: {T}[M]) -> B: {T}[M, N]:\n    B[j, i] = A[i, j] * X[j] + A[i, j]"
COPY = "program t[N=32, M=32, T=f32](A: T[N, M]) -> B: T[N, M]:\n    B[i, j] = A[i, j]"
PADDED = "program t[N=32, M=16](A: {T}[N, M]) -> B: {T}[M + 4, N]:\n    B[j, i] = A[i, j] if j < M else 0"


def tiles(text: str, dtype: str, rows: int, columns: int, lanes: int, **sizes: int) -> Schedule:
    """A tile of `rows` by `columns`, unrolled, with vectors along the columns."""
    program = text.replace("{T}", dtype).replace(", T=f32", "")
    sch = Schedule(parse_program(program, **sizes))
    block = sch.get_block("B")
    j, i = sch.get_loops(block)
    (j0, j1), (i0, i1) = sch.split(j, [None, rows]), sch.split(i, [None, columns])
    sch.reorder(j0, i0, j1, i1)
    sch.unroll(j1)
    sch.annotate(block, "unroll_limit", 16)
    sch.vectorize(i1, lanes=lanes)
    return sch


def right_between_guards(sch: Schedule) -> None:
    """Results are those of the plain program, with inputs between pages that nothing may touch."""
    rng = np.random.default_rng(0)
    arrays = []
    for given in sch.func.inputs:
        shape = tuple(int(n.value) for n in given.shape)  # type: ignore[attr-defined]
        arrays.append(rng.integers(0, 100, shape).astype(given.dtype.numpy))
    wanted = Kernel(build(sch.program.func, HOST))(*arrays)
    memory = Guarded()
    try:
        for at_end in (True, False):
            found = Kernel(build(sch.func, HOST))(*(memory.copy(a, at_end=at_end) for a in arrays))
            assert np.array_equal(found, wanted)
    finally:
        memory.close()


@pytest.mark.parametrize(
    ("text", "dtype", "rows", "columns", "lanes", "sizes"),
    [
        (PLAIN, "f32", 8, 8, 8, {}),
        (PLAIN, "f32", 16, 32, 16, {}),
        (PLAIN, "f32", 6, 8, 8, {"M": 18}),  # the second run overlaps the first
        (PLAIN, "f32", 8, 8, 8, {"N": 31, "M": 13}),  # tiles with a rest, each way
        (PLAIN, "f64", 4, 8, 4, {}),
        (PLAIN, "i8", 16, 32, 32, {}),
        (PLAIN, "f16", 8, 16, 16, {}),
        (SUM, "f32", 8, 16, 8, {}),
    ],
)
def test_nothing_is_gathered(text: str, dtype: str, rows: int, columns: int, lanes: int, sizes: dict[str, int]) -> None:
    sch = tiles(text, dtype, rows, columns, lanes, **sizes)
    assert "masked.gather" not in emit(lower(sch.func, HOST), HOST).text
    right_between_guards(sch)


def test_a_run_is_loaded_once() -> None:
    sch = tiles(PLAIN, "f32", 8, 8, 8)
    emitted = emit(lower(sch.func, HOST), HOST).text
    assert emitted.count("load <4 x float>") == 16
    # Two halves of eight rows become one vector, and two steps of interleaving follow.
    assert emitted.count("shufflevector") == 8 + 2 * 8


@pytest.mark.parametrize(("dtype", "unit", "lanes"), [("i8", 4, 64), ("i8", 4, 32), ("bf16", 2, 32), ("f32", 2, 16)])
@pytest.mark.parametrize("rows", [32, 29])
def test_units_of_neighbours_are_transposed_as_a_whole(dtype: str, unit: int, lanes: int, rows: int) -> None:
    """Pairs and fours of a row, beside those of other rows, are how tensor instructions take an operand."""
    sch = Schedule(parse_program(COPY, N=rows, T=dtype))
    copy = sch.cache_read(sch.get_block("B"), "A")
    sch.transform_layout(copy, f"i, j -> i//16, j//{unit}, i%16, j%{unit}")
    i, j = sch.get_loops(copy)
    (i0, i1), (j0, j1, j2) = sch.split(i, [None, 16]), sch.split(j, [None, run_length(DType(dtype)) // unit, unit])
    sch.reorder(i0, j0, j1, i1, j2)
    sch.unroll(j1)
    sch.vectorize(sch.fuse(i1, j2), lanes=lanes)
    sch.annotate(copy, "unroll_limit", 16)
    emitted = emit(lower(sch.func, HOST), HOST).text
    assert rows % 16 or not re.search("masked.gather|insertelement", emitted)
    right_between_guards(sch)


@pytest.mark.parametrize(
    ("text", "rows", "sizes"),
    [
        (PLAIN, 3, {"M": 15}),  # too few rows
        (PLAIN, 8, {"N": 3, "M": 8}),  # too few lanes: they are near one another
        (PADDED, 5, {}),  # rows that are not there
    ],
)
def test_the_rest_is_read_as_ever(text: str, rows: int, sizes: dict[str, int]) -> None:
    right_between_guards(tiles(text, "f32", rows, 8, 8, **sizes))


@pytest.mark.parametrize("lanes", [12, 24])
def test_vectors_of_three_or_six_runs_are_gathered(lanes: int) -> None:
    """Runs are joined two by two, which makes only vectors whose lanes are a power of two."""
    right_between_guards(tiles(PLAIN, "f32", 4, lanes, lanes, N=2 * lanes))


@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.F16, DType.I8])
@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_the_network_of_shuffles(dtype: DType, pieces: int) -> None:
    """Shuffles as they are emitted, carried out in NumPy."""
    run = run_length(dtype)
    width = run * pieces
    text = FunctionText([])
    values = {f"%row{n}": [(n + run * (at // run), at % run) for at in range(width)] for n in range(run)}
    found = transpose_rows(text, list(values), dtype, width)
    for line in text.entry + list(text.lines()):
        name, equals, rest = line.strip().partition(" = shufflevector ")
        if equals:
            a, b = (part.split()[-1] for part in rest.split(",")[:2])
            picks = [int(part.split()[-1].rstrip(">")) for part in rest.split(",")[2:]]
            both = values[a] + values[b]
            values[name] = [both[pick] for pick in picks]
    assert [values[name] for name in found] == [[(lane, column) for lane in range(width)] for column in range(run)]
