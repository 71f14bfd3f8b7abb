"""Loops, vector strips and their tails, conditions, register arrays: values, and memory that is never touched."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.compiler.cpu.emit import statements
from metasched.compiler.cpu.emit.accesses.transposed_loads import is_straight
from metasched.compiler.lir import Array, ArrayKind, LoopProgram, LStmt
from metasched.dtypes import DType
from metasched.errors import BuildError
from metasched.ir.nodes import Binary, BinOp, Cast, Expr, Select
from tests.support.lir_runner import (
    F32,
    HOST,
    block,
    c,
    compiled,
    ld,
    loop,
    program,
    register,
    run,
    unrolled,
    v,
    vector,
    when,
    write,
)

ODD = [1, 2, 7, 15, 16, 17, 31, 33, 127, 1009]
I64 = DType.I64
ALL = [d for d in DType if not d.is_bool]


def minimum(a: Expr, b: Expr) -> Expr:
    return Binary(BinOp.MIN, a, b)


def both(*conds: Expr) -> Expr:
    out = conds[0]
    for cond in conds[1:]:
        out = Binary(BinOp.AND, out, cond)
    return out


def data(n: int, dtype: DType = F32) -> np.ndarray:
    return (np.random.default_rng(n).integers(1, 50, n)).astype(dtype.numpy)


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("n", ODD)
@pytest.mark.parametrize("unroll", [False, True])
def test_copy_in_strips(n: int, lanes: int, unroll: bool) -> None:
    if unroll and n > 200:
        n = 100
    a = data(n)
    stmt = vector("j", n, lanes, write("out", v("j"), ld("a", v("j"))), unroll=unroll)
    np.testing.assert_array_equal(run(program(stmt, {"a": (F32, n)}, {"out": (F32, n)}), {"a": a})["out"], a)


@pytest.mark.parametrize("dtype", [*ALL, DType.BOOL], ids=str)
@pytest.mark.parametrize("n", [1, 7, 127])
def test_every_dtype_in_a_masked_tail(n: int, dtype: DType) -> None:
    a = data(n, dtype)
    lanes = 2 * HOST.lanes(dtype)
    stmt = vector("j", n, lanes, write("out", v("j"), ld("a", v("j"), dtype)))
    np.testing.assert_array_equal(run(program(stmt, {"a": (dtype, n)}, {"out": (dtype, n)}), {"a": a})["out"], a)


@pytest.mark.parametrize("n", [1, 7, 16, 127])
def test_extent_known_only_at_run_time(n: int) -> None:
    """Rows of a triangle: row r has r + 1 elements; the rest stays untouched."""
    a = data(n * n)
    at = v("r") * n + v("j")
    stmt = loop("r", n, vector("j", v("r") + 1, 16, write("out", at, ld("a", at) + c(1.0, F32))))
    got = run(program(stmt, {"a": (F32, n * n)}, {"out": (F32, n * n)}), {"a": a})["out"].reshape(n, n)
    np.testing.assert_array_equal(got, np.where(np.tri(n, dtype=bool), a.reshape(n, n) + 1, 77))


@pytest.mark.parametrize("n", [1, 8, 127])
def test_clipped_tile(n: int) -> None:
    a = data(n)
    tile, inner = v("t"), v("j")
    stmt = loop(
        "t",
        -(-n // 8),
        loop("j", minimum(c(8), c(n) - tile * 8), write("out", tile * 8 + inner, ld("a", tile * 8 + inner))),
    )
    np.testing.assert_array_equal(run(program(stmt, {"a": (F32, n)}, {"out": (F32, n)}), {"a": a})["out"], a)
    stmt = loop(
        "t",
        -(-n // 8),
        vector("j", minimum(c(8), c(n) - tile * 8), 8, write("out", tile * 8 + inner, ld("a", tile * 8 + inner))),
    )
    np.testing.assert_array_equal(run(program(stmt, {"a": (F32, n)}, {"out": (F32, n)}), {"a": a})["out"], a)


def test_loops_that_run_never() -> None:
    stmt = block(
        loop("i", 5, loop("k", v("i") - 10, write("out", v("k"), c(1.0, F32)))),
        loop("z", 0, write("out", v("z"), c(1.0, F32))),
        loop("y", 5, vector("x", v("y") - 10, 16, write("out", v("x"), c(1.0, F32)))),
        vector("w", 0, 16, write("out", v("w"), c(1.0, F32))),
    )
    np.testing.assert_array_equal(run(program(stmt, {}, {"out": (F32, 4)}), {})["out"], np.full(4, 77))


@pytest.mark.parametrize("n", [1, 7, 40])
def test_condition_on_lanes_becomes_a_mask(n: int) -> None:
    """The last of a row of tiles is cut by a condition rather than by an extent."""
    a = data(n)
    at = v("t") * 16 + v("j")
    stmt = loop("t", -(-n // 16), vector("j", 16, 16, when(at < n, write("out", at, ld("a", at) * c(2.0, F32)))))
    np.testing.assert_array_equal(run(program(stmt, {"a": (F32, n)}, {"out": (F32, n)}), {"a": a})["out"], a * 2)


def test_condition_on_data() -> None:
    a = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    for stmt in (
        loop("i", 100, when(ld("a", v("i")) > 0.0, write("out", v("i"), ld("a", v("i"))))),
        vector("i", 100, 16, when(ld("a", v("i")) > 0.0, write("out", v("i"), ld("a", v("i"))))),
    ):
        got = run(program(stmt, {"a": (F32, 100)}, {"out": (F32, 100)}), {"a": a})["out"]
        np.testing.assert_array_equal(got, np.where(a > 0, a, np.float32(77)))


@pytest.mark.parametrize("lanes", [0, 4, 16])
@pytest.mark.parametrize("n", [1, 7, 33])
def test_select_reads_nothing_out_of_bounds(n: int, lanes: int) -> None:
    """A padded copy: the source is read only where its index is inside."""
    a = data(n)
    pad = 3
    at = v("j") - pad
    inside = both(v("j") >= pad, v("j") < n + pad)
    body = write("out", v("j"), Select(inside, ld("a", at), c(0.0, F32)))
    m = n + 2 * pad
    stmt = vector("j", m, lanes, body) if lanes else loop("j", m, body)
    got = run(program(stmt, {"a": (F32, n)}, {"out": (F32, m)}), {"a": a})["out"]
    np.testing.assert_array_equal(got, np.pad(a, pad))


@pytest.mark.parametrize("lanes", [0, 16])
def test_select_reads_nothing_far_out_of_bounds(lanes: int) -> None:
    a = data(20)
    far = Select(v("j") < 10, ld("a", v("j")), ld("a", v("j") - 1000000))
    body = write("out", v("j"), Select(v("j") < 10, far, c(5.0, F32)))
    stmt = vector("j", 20, lanes, body) if lanes else loop("j", 20, body)
    got = run(program(stmt, {"a": (F32, 20)}, {"out": (F32, 20)}), {"a": a})["out"]
    np.testing.assert_array_equal(got, np.where(np.arange(20) < 10, a, 5))


@pytest.mark.parametrize("lanes", [0, 16])
def test_rows_chosen_by_a_condition_all_lanes_share(lanes: int) -> None:
    """`out[r, j] = a[r - 1, j] if r >= 1 else 0`."""
    rows, columns = 4, 19
    a = data((rows - 1) * columns)
    at = v("r") * columns + v("j")
    body = write("out", at, Select(v("r") >= 1, ld("a", at - columns), c(0.0, F32)))
    stmt = loop("r", rows, vector("j", columns, lanes, body) if lanes else loop("j", columns, body))
    got = run(program(stmt, {"a": (F32, a.size)}, {"out": (F32, rows * columns)}), {"a": a})["out"]
    np.testing.assert_array_equal(got.reshape(rows, columns)[1:], a.reshape(rows - 1, columns))
    np.testing.assert_array_equal(got[:columns], 0)


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("op", [BinOp.AND, BinOp.OR])
def test_logic_guards_the_read_after_it(op: BinOp, lanes: int) -> None:
    n = 20
    a = data(n)
    inside = v("j") >= 5 if op is BinOp.AND else v("j") < 5
    cond = Binary(op, inside, ld("a", v("j") - 5) > 25.0)
    body = write("out", v("j"), Select(cond, c(1.0, F32), c(0.0, F32)))
    stmt = vector("j", n + 5, lanes, body) if lanes else loop("j", n + 5, body)
    got = run(program(stmt, {"a": (F32, n)}, {"out": (F32, n + 5)}), {"a": a})["out"]
    above = np.concatenate([np.full(5, op is BinOp.OR), a > 25])
    np.testing.assert_array_equal(got, above)


@pytest.mark.parametrize("step", [2, 3, -1, 0])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_gather(n: int, step: int) -> None:
    size = abs(step) * (n - 1) + 1
    a = data(size)
    start = size - 1 if step < 0 else 0
    stmt = vector("j", n, 16, write("out", v("j"), ld("a", v("j") * step + start)))
    got = run(program(stmt, {"a": (F32, size)}, {"out": (F32, n)}), {"a": a})["out"]
    np.testing.assert_array_equal(got, a[[start + step * j for j in range(n)]])


@pytest.mark.parametrize("dtype", [*ALL, DType.BOOL], ids=str)
def test_gather_and_scatter_of_every_dtype(dtype: DType) -> None:
    n = 21
    a = data(3 * n, dtype)
    stmt = vector("j", n, 16, write("out", v("j") * 2, ld("a", v("j") * 3, dtype)))
    got = run(program(stmt, {"a": (dtype, 3 * n)}, {"out": (dtype, 2 * n)}), {"a": a})["out"]
    expected = np.full(2 * n, 77, dtype.numpy)
    expected[::2] = a[::3]
    np.testing.assert_array_equal(got, expected)


def test_index_read_from_memory() -> None:
    index = np.random.default_rng(0).permutation(50).astype(np.int64)
    a = data(50)
    for stmt in (
        loop("j", 50, write("out", v("j"), ld("a", ld("index", v("j"), I64)))),
        vector("j", 50, 16, write("out", v("j"), ld("a", ld("index", v("j"), I64)))),
        vector("j", 50, 16, write("out", ld("index", v("j"), I64), ld("a", v("j")))),
    ):
        kernel = program(stmt, {"a": (F32, 50), "index": (I64, 50)}, {"out": (F32, 50)})
        if stmt.body.index == v("j"):  # type: ignore[attr-defined]
            np.testing.assert_array_equal(run(kernel, {"a": a, "index": index})["out"], a[index])
        else:
            got = run(kernel, {"a": a, "index": index})["out"]
            np.testing.assert_array_equal(got[index], a)


@pytest.mark.parametrize("n", [1, 30, 126])
@pytest.mark.parametrize("unroll", [False, True])
def test_quotients_and_remainders_of_the_lane(n: int, unroll: bool) -> None:
    """A fused loop: neighbouring lanes may sit in different rows."""
    rows = -(-n // 14)
    a = data(rows * 20)
    at = (v("f") // 14) * 20 + v("f") % 14
    stmt = vector("f", n, 16, write("out", v("f"), ld("a", at)), unroll=unroll)
    got = run(program(stmt, {"a": (F32, rows * 20)}, {"out": (F32, n)}), {"a": a})["out"]
    f = np.arange(n)
    np.testing.assert_array_equal(got, a[f // 14 * 20 + f % 14])


def matmul(n: int, m: int, k: int, rows: int, columns: int, lanes: int) -> LoopProgram:
    """A register tile of rows x columns, cut at the edges by conditions."""
    i, j, kk = v("i0") * rows + v("ii"), v("j0") * columns + v("jj"), v("k")
    acc = v("ii") * columns + v("jj")
    inside = both(i < n, j < m)

    def tile(body: LStmt) -> LStmt:
        return unrolled("ii", rows, vector("jj", columns, lanes, body, unroll=True))

    update = write("acc", acc, ld("acc", acc) + ld("a", i * k + kk) * ld("b", kk * m + j))
    body = block(
        tile(write("acc", acc, c(0.0, F32))),
        loop("k", k, tile(when(inside, update))),
        tile(when(inside, write("out", i * m + j, ld("acc", acc)))),
    )
    stmt = loop("i0", -(-n // rows), loop("j0", -(-m // columns), body))
    return program(
        stmt, {"a": (F32, n * k), "b": (F32, k * m)}, {"out": (F32, n * m)}, (register("acc", rows * columns),)
    )


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 7, 7), (16, 64, 10), (33, 50, 5)])
@pytest.mark.parametrize("tile", [(4, 32, 16), (3, 20, 16), (2, 13, 8), (5, 1, 1)])
def test_register_tile(shape: tuple[int, int, int], tile: tuple[int, int, int]) -> None:
    n, m, k = shape
    a, b = data(n * k), data(k * m)
    got = run(matmul(n, m, k, *tile), {"a": a, "b": b})["out"].reshape(n, m)
    np.testing.assert_array_equal(got, a.reshape(n, k) @ b.reshape(k, m))


def test_register_array_in_a_tail_that_overlaps_the_next_row() -> None:
    """Rows of 20 in 16 lanes: the second strip of a row has 4 elements, and the next row starts right after it."""
    at = v("r") * 20 + v("j")
    a = data(60)
    stmt = block(
        unrolled("r", 3, vector("j", 20, 16, write("acc", at, ld("a", at)), unroll=True)),
        loop("r", 3, vector("j", 20, 16, write("out", at, ld("acc", at)), unroll=True)),
    )
    kernel = program(stmt, {"a": (F32, 60)}, {"out": (F32, 60)}, (register("acc", 60),))
    np.testing.assert_array_equal(run(kernel, {"a": a})["out"], a)
    stmt = block(
        unrolled("r", 3, vector("j", 13 + v("r"), 16, write("acc", at, ld("a", at)))),
        unrolled("r", 3, vector("j", 13 + v("r"), 16, write("out", at, ld("acc", at)))),
    )
    kernel = program(stmt, {"a": (F32, 60)}, {"out": (F32, 60)}, (register("acc", 60),))
    columns = np.arange(20) < 13 + np.arange(3)[:, None]
    np.testing.assert_array_equal(run(kernel, {"a": a})["out"], np.where(columns.ravel(), a, 77))


def test_values_are_not_kept_across_writes() -> None:
    """Reads see what was written before them: in straight code, around loops, and in branches."""
    one = c(1.0, F32)
    bump = write("out", c(0), ld("out", c(0)) + one)
    stmt = block(
        write("out", c(0), c(0.0, F32)),
        write("out", c(1), ld("out", c(0))),
        bump,
        loop("i", 5, block(bump, when(v("i") < 2, bump))),
        write("out", c(2), ld("out", c(0))),
        unrolled("u", 3, bump),
        write("out", c(3), ld("out", c(0))),
    )
    got = run(program(stmt, {}, {"out": (F32, 4)}), {})["out"]
    np.testing.assert_array_equal(got, [11, 0, 8, 11])


def test_reads_follow_overlapping_writes() -> None:
    """A vector written, an element of it overwritten, and the vector read again."""
    stmt = block(
        vector("j", 16, 16, write("out", v("j"), Cast(v("j"), F32))),
        write("out", c(3), c(100.0, F32)),
        vector("j2", 16, 16, write("out", v("j2") + 16, ld("out", v("j2")))),
        write("out", c(32), ld("out", c(19))),
    )
    got = run(program(stmt, {}, {"out": (F32, 33)}), {})["out"]
    expected = np.arange(16.0)
    expected[3] = 100
    np.testing.assert_array_equal(got, [*expected, *expected, 100])


def test_all_lanes_writing_one_element_run_in_order() -> None:
    a = data(37)
    stmt = block(
        write("out", c(0), c(0.0, F32)), vector("j", 37, 16, write("out", c(0), ld("out", c(0)) + ld("a", v("j"))))
    )
    assert run(program(stmt, {"a": (F32, 37)}, {"out": (F32, 1)}), {"a": a})["out"][0] == a.sum()


def test_serial_loop_inside_a_vector_loop() -> None:
    a = data(7 * 21)
    stmt = vector(
        "j",
        21,
        16,
        block(
            write("out", v("j"), c(0.0, F32)),
            loop("k", 7, write("out", v("j"), ld("out", v("j")) + ld("a", v("k") * 21 + v("j")))),
        ),
    )
    got = run(program(stmt, {"a": (F32, a.size)}, {"out": (F32, 21)}), {"a": a})["out"]
    np.testing.assert_array_equal(got, a.reshape(7, 21).sum(0))


def test_loop_over_lanes_inside_a_vector_loop_runs_serially() -> None:
    a = data(100)
    at = v("j") * 10 + v("k")
    stmt = vector("j", 10, 4, loop("k", v("j") + 1, write("out", at, ld("a", at))))
    got = run(program(stmt, {"a": (F32, 100)}, {"out": (F32, 100)}), {"a": a})["out"].reshape(10, 10)
    np.testing.assert_array_equal(got, np.where(np.tri(10, dtype=bool), a.reshape(10, 10), 77))


@pytest.mark.parametrize("kind", [ArrayKind.SHARED, ArrayKind.THREAD])
@pytest.mark.parametrize("n", [1, 7, 127])
def test_workspace_arrays(n: int, kind: ArrayKind) -> None:
    a = data(n)
    stmt = block(
        vector("j", n, 16, write("t", v("j"), ld("a", v("j")) * c(2.0, F32))),
        vector("j2", n, 16, write("u", v("j2"), ld("t", v("j2")) + c(1.0, F32))),
        vector("j3", n, 16, write("out", v("j3"), ld("t", v("j3")) + ld("u", v("j3")))),
    )
    others = (Array("t", F32, n, kind), Array("u", F32, n, kind))
    kernel = program(stmt, {"a": (F32, n)}, {"out": (F32, n)}, others)
    np.testing.assert_array_equal(run(kernel, {"a": a})["out"], a * 4 + 1)
    code = compiled(kernel)
    assert code.workspace_bytes >= 8 * n
    assert code.workspace_bytes % 64 == 0


def test_workspace_may_be_given() -> None:
    others = (Array("t", F32, 8, ArrayKind.SHARED),)
    stmt = loop("j", 8, block(write("t", v("j"), c(3.0, F32)), write("out", v("j"), ld("t", v("j")))))
    code = compiled(program(stmt, {}, {"out": (F32, 8)}, others))
    raw = np.zeros(code.workspace_bytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    workspace = raw[start : start + code.workspace_bytes]
    out = np.zeros(8, np.float32)
    code(out, workspace=workspace)
    np.testing.assert_array_equal(out, 3)
    np.testing.assert_array_equal(workspace[:32].view(np.float32), 3)


def test_register_arrays_too_large_for_the_stack_are_refused() -> None:
    stmt = block(write("acc", c(0), c(0.0, F32)), write("out", c(0), ld("acc", c(0))))
    with pytest.raises(BuildError, match="register buffers too large"):
        compiled(program(stmt, {}, {"out": (F32, 1)}, (register("acc", 1 << 15),)))


def test_copies_of_a_loop_do_not_look_through_its_body_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[LStmt] = []

    def counting(stmt: LStmt) -> bool:
        looked.append(stmt)
        return is_straight(stmt)

    monkeypatch.setattr(statements, "is_straight", counting)
    inner = unrolled("j", 8, write("out", v("i") * 8 + v("j"), ld("a", v("j"))))
    a = data(8)
    out = run(program(unrolled("i", 8, inner), {"a": (F32, 8)}, {"out": (F32, 64)}), {"a": a})["out"]
    np.testing.assert_array_equal(out, np.tile(a, 8))
    assert looked == [inner, inner.body]
