"""What the generated code looks like: instructions used, and nothing done that was not asked for."""

from __future__ import annotations

import re

import numpy as np
import pytest

from metasched.compiler import lir
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lir import Array, ArrayKind, LoopMode
from metasched.errors import BuildError
from metasched.ir.nodes import Binary, BinOp
from metasched.target import Target
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
    write,
)

AVX512 = pytest.mark.skipif("avx512f" not in HOST.features, reason="needs a CPU with AVX-512")
FMA = pytest.mark.skipif("fma" not in HOST.features, reason="needs a CPU with FMA")
ROWS, COLUMNS, LANES = 8, 32, 16


def matmul(n: int = 64, unroll: int = 4) -> lir.LoopProgram:
    """A matrix product in register tiles of 8 rows and two vectors, `k` unrolled by 4, then ReLU."""
    i, j = v("i0") * ROWS + v("i"), v("j0") * COLUMNS + v("j")
    k = v("k0") * unroll + v("k1")
    acc = v("i") * COLUMNS + v("j")

    def tile(body: lir.LStmt) -> lir.LStmt:
        return unrolled("i", ROWS, vector("j", COLUMNS, LANES, body, unroll=True))

    update = tile(write("acc", acc, ld("acc", acc) + ld("A", i * n + k) * ld("B", k * n + j)))
    body = block(
        tile(write("acc", acc, c(0.0, F32))),
        loop("k0", n // unroll, unrolled("k1", unroll, update)),
        tile(write("D", i * n + j, Binary(BinOp.MAX, ld("acc", acc), c(0.0, F32)))),
    )
    stmt = loop("i0", n // ROWS, loop("j0", n // COLUMNS, body), LoopMode.PARALLEL)
    size = (F32, n * n)
    return program(stmt, {"A": size, "B": size}, {"D": size}, (register("acc", ROWS * COLUMNS),))


def inner_loop(asm: str) -> list[str]:
    """The instructions of the loop that holds the first fused multiply-add."""
    lines = [line.strip() for line in asm.splitlines()]
    first = next(n for n, line in enumerate(lines) if line.startswith("vfmadd"))
    start = max(n for n in range(first) if re.match(r"\.L\w+:", lines[n]))
    label = lines[start].rstrip(":")
    end = next(n for n in range(start, len(lines)) if re.match(rf"j\w+\s+{re.escape(label)}$", lines[n]))
    return lines[start + 1 : end + 1]


@AVX512
def test_matmul_runs_on_fused_multiply_adds_of_whole_registers() -> None:
    body = inner_loop(compiled(matmul()).asm)
    fused = [line for line in body if line.startswith("vfmadd")]
    assert len(fused) == ROWS * (COLUMNS // LANES) * 4
    assert all("zmm" in line for line in fused)
    assert not any("rsp" in line for line in body), "a spill in the inner loop"
    assert not any(re.match(r"vmov.*,.*\(", line) for line in body), "a store in the inner loop"


@AVX512
def test_addresses_are_computed_outside_the_inner_loop() -> None:
    """Beyond multiply-adds, loads and broadcasts, the loop has a counter, two pointers and a jump."""
    body = inner_loop(compiled(matmul()).asm)
    rest = [line for line in body if not line.startswith(("vfmadd", "vmov", "vbroadcast"))]
    assert len(rest) <= 6, rest


@AVX512
def test_relu_is_one_instruction() -> None:
    asm = compiled(matmul()).asm
    assert len(re.findall(r"\bvmaxps\b.*zmm", asm)) == ROWS * COLUMNS // LANES
    assert "vcmpunord" not in asm


@FMA
def test_nothing_is_unrolled_that_was_not_asked_for() -> None:
    """A loop of a constant, small number of vector operations stays a loop."""
    stmt = loop("k", 8, vector("j", 64, 8, write("D", v("j"), ld("D", v("j")) + ld("A", v("k") * 64 + v("j")))))
    asm = compiled(program(stmt, {"A": (F32, 512)}, {"D": (F32, 64)})).asm
    assert len(re.findall(r"\bvaddps\b", asm)) == 1


def test_scalar_loops_are_not_vectorised() -> None:
    stmt = loop("i", 1024, write("D", v("i"), ld("A", v("i")) * c(3.0, F32)))
    asm = compiled(program(stmt, {"A": (F32, 1024)}, {"D": (F32, 1024)})).asm
    assert not re.search(r"\bv?mulps\b", asm)
    assert len(re.findall(r"\bv?mulss\b", asm)) == 1


def test_straight_code_is_not_vectorised() -> None:
    stmt = unrolled("i", 8, write("D", v("i"), ld("A", v("i")) * c(3.0, F32)))
    asm = compiled(program(stmt, {"A": (F32, 8)}, {"D": (F32, 8)})).asm
    assert not re.search(r"\bv?mulps\b", asm)


def test_loops_forbid_unrolling_and_vectorising() -> None:
    text = emit(matmul(), HOST).text
    loops = re.findall(r"!llvm\.loop !(\d+)", text)
    assert len(loops) == len(set(loops)) == 3
    for number in loops:
        assert f"!{number} = distinct !{{!{number}, !0, !1}}" in text
    assert '!0 = !{!"llvm.loop.unroll.disable"}' in text
    assert '!1 = !{!"llvm.loop.vectorize.enable", i1 false}' in text


def test_floats_may_be_contracted_and_nothing_else() -> None:
    text = emit(matmul(), HOST).text
    assert "fadd contract <16 x float>" in text
    assert not re.search(r"\bf(add|mul|sub|div) .*\b(fast|reassoc|nnan|ninf|nsz|arcp|afn)\b", text)


def test_a_lesser_target_is_compiled_for() -> None:
    narrow = HOST.without(["fma", *(f for f in HOST.features if f.startswith("avx"))])
    asm = compiled(matmul(), narrow).asm
    assert "mm" in asm
    assert not re.search(r"\b[yz]mm\d|\bvfmadd", asm)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(np.float32) for _ in range(2))
    got = run(matmul(), {"A": a, "B": b}, target=narrow)["D"].reshape(64, 64)
    np.testing.assert_array_equal(got, np.maximum(a @ b, 0))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_parallel_loop(threads: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(np.float32) for _ in range(2))
    got = run(matmul(), {"A": a, "B": b}, target=HOST.with_threads(threads))["D"].reshape(64, 64)
    np.testing.assert_array_equal(got, np.maximum(a @ b, 0))


@pytest.mark.parametrize("threads", [1, 3])
def test_parallel_loop_inside_a_serial_one(threads: int) -> None:
    """The region sees the loop variable around it, scalars of the kernel, and arrays the serial part wrote."""
    at = v("s") * 21 + v("p")
    stmt = loop(
        "s",
        5,
        block(
            write("t", c(0), ld("A", v("s"))),
            loop("p", 21, write("D", at, ld("t", c(0)) + ld("A", v("p"))), LoopMode.PARALLEL),
        ),
    )
    kernel = program(stmt, {"A": (F32, 21)}, {"D": (F32, 105)}, (Array("t", F32, 1, ArrayKind.SHARED),))
    a = np.arange(21, dtype=np.float32)
    got = run(kernel, {"A": a}, target=HOST.with_threads(threads))["D"].reshape(5, 21)
    np.testing.assert_array_equal(got, a[:5, None] + a)


def test_parallel_loop_of_an_extent_known_at_run_time() -> None:
    stmt = loop("s", 6, loop("p", v("s"), write("D", v("s") * 6 + v("p"), c(1.0, F32)), LoopMode.PARALLEL))
    got = run(program(stmt, {}, {"D": (F32, 36)}), {}, target=HOST.with_threads(4))["D"].reshape(6, 6)
    np.testing.assert_array_equal(got, np.where(np.tri(6, k=-1, dtype=bool), 1, 77))


def test_register_array_may_not_cross_a_parallel_loop() -> None:
    stmt = block(write("acc", c(0), c(1.0, F32)), loop("p", 4, write("D", v("p"), ld("acc", c(0))), LoopMode.PARALLEL))
    with pytest.raises(BuildError, match="register buffer crosses a parallel loop"):
        compiled(program(stmt, {}, {"D": (F32, 4)}, (register("acc", 1),)), HOST.with_threads(2))


def test_emission_is_deterministic() -> None:
    assert emit(matmul(), HOST).text == emit(matmul(), HOST).text
    assert emit(matmul(), HOST) == emit(matmul(), Target.parse(str(HOST)))


def test_lanes_that_do_not_run_read_nothing_of_the_workspace() -> None:
    # What nobody wrote there may be denormal, and slow to calculate with.
    n, lanes = 15, 16
    copied = vector("j", n, lanes, write("W", v("j"), ld("A", v("j"))), unroll=True)
    doubled = vector("j", n, lanes, write("B", v("j"), ld("W", v("j")) + ld("A", v("j"))), unroll=True)
    scratch = Array("W", F32, lanes, ArrayKind.SHARED)
    kernel = program(block(copied, doubled), {"A": (F32, lanes)}, {"B": (F32, n)}, (scratch,))
    assert len(re.findall(r"= call .*@llvm\.masked\.load", emit(kernel, HOST).text)) == 1, "of W, and not of A"
