"""What the notes of `annotate` make of the code: stores past the caches, prefetches, and faster arithmetic."""

from __future__ import annotations

import re

import numpy as np
import pytest

from metasched.compiler.cpu.emit import emit
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build, compile_func
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target

HOST = Target.detect(threads=2)
SHIFTED = """program shifted[N={n}, M={m}](X: f32[N, M], B: f32[M]) -> Y: f32[N, M]:
    Y[i, j] = X[i, j] + B[j]"""
DENSE = """program dense[N=12, M=32, K=20](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])"""
ROWS = """program rows[N=6, M=50](X: f32[N, M], scale: f32) -> (Y: f32[N, M], S: f32[N]):
    most: H[i] = max[j](X[i, j])
    Y[i, j] = (X[i, j] - H[i]) / scale
    total: S[i] = sum[j](X[i, j] * scale)"""


def emitted(sch: Schedule, target: Target = HOST) -> str:
    return emit(lower(sch.func, target), target).text


def lowered(sch: Schedule) -> str:
    return print_kernel(lower(sch.func, HOST))


def shifted(n: int, m: int, lanes: int = 16) -> Schedule:
    sch = Schedule(parse_program(SHIFTED.format(n=n, m=m)))
    block = sch.get_block("Y")
    i, j = sch.get_loops(block)
    sch.parallel(i)
    sch.vectorize(j, lanes=lanes)
    return sch


def streamed(n: int, m: int, lanes: int = 16) -> Schedule:
    sch = shifted(n, m, lanes)
    sch.annotate(sch.get_block("Y"), "non_temporal", True)
    return sch


# --- stores past the caches ---


@pytest.mark.parametrize(("m", "lanes"), [(64, 16), (70, 16), (1, 16), (9, 4), (129, 32), (48, 12)])
@pytest.mark.parametrize("offset", [0, 1, 3, 16])
def test_streamed_results_are_the_same_at_any_size_and_address(m: int, lanes: int, offset: int) -> None:
    n = 5
    kernel = Kernel(build(streamed(n, m, lanes).func, HOST))
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((n, m)).astype(np.float32), rng.standard_normal(m).astype(np.float32)
    np.testing.assert_array_equal(kernel(x, b), x + b)
    raw = np.full(n * m + 64, 7, np.float32)
    start = (-raw.ctypes.data % 64) // 4 + offset
    kernel(x, b, out=raw[start : start + n * m].reshape(n, m))
    np.testing.assert_array_equal(raw[start : start + n * m].reshape(n, m), x + b)
    assert (np.delete(raw, np.s_[start : start + n * m]) == 7).all()


def test_only_whole_vectors_at_a_boundary_are_streamed() -> None:
    text = emitted(streamed(5, 70))
    stores = re.findall(r"store <(\d+) x float> .*?align (\d+)(, !nontemporal !\d+)?", text)
    assert ("16", "64", ", !nontemporal !2") in [(a, b, re.sub(r"!\d+$", "!2", c)) for a, b, c in stores]
    assert ("16", "4", "") in stores  # where it is at no boundary
    assert all(width == "16" for width, _, note in stores if note)
    assert "nontemporal" not in emitted(shifted(5, 70))


def test_code_streams_and_ends_in_a_fence() -> None:
    if "sse" not in HOST.features:
        pytest.skip("only x86 has a fence for it")
    kernel = Kernel(build(streamed(5, 70).func, HOST))
    assert re.search(r"movntps|movntpd|movntdq", kernel.asm)
    for function in re.split(r"(?=define )", emitted(streamed(5, 70))):
        if "nontemporal" in function:
            assert re.search(r"call void @llvm.x86.sse.sfence\(\)\n  ret void", function)
    assert "sfence" not in emitted(shifted(5, 70))


def test_other_machines_have_no_fence() -> None:
    arm = Target.parse("name=generic threads=1 l1=32768 l2=1048576 l3=33554432 cacheline=64 features=neon")
    text = emitted(streamed(5, 70), arm)
    assert "nontemporal" in text
    assert "sfence" not in text


def test_sums_are_streamed_once_they_are_done() -> None:
    sch = Schedule(parse_program(DENSE))
    dense = sch.get_block("C")
    i, j, k = sch.get_loops(dense)
    sch.vectorize(j, lanes=16)
    sch.reorder(i, k, j)
    sch.annotate(dense, "unroll_limit", 4)
    sch.annotate(dense, "non_temporal", True)
    marked = [line.strip() for line in lowered(sch).splitlines() if "@non_temporal" in line]
    assert len(marked) == 1
    assert marked[0].startswith("C[")
    assert "C.acc" in marked[0]
    check(sch)


def test_sums_that_stay_in_memory_are_stored_as_usual() -> None:
    sch = Schedule(parse_program(DENSE))
    dense = sch.get_block("C")
    i, j, k = sch.get_loops(dense)
    sch.vectorize(j, lanes=16)
    sch.reorder(k, i, j)
    sch.annotate(dense, "non_temporal", True)
    assert "non_temporal" not in lowered(sch)
    check(sch)


# --- prefetches ---


def test_a_loop_asks_for_what_it_reads_later() -> None:
    sch = Schedule(parse_program(DENSE))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 4])
    sch.vectorize(j, lanes=16)
    sch.reorder(i0, k, i1, j)
    sch.annotate(sch.get_block("C"), "unroll_limit", 8)
    sch.annotate(k, "prefetch", 3)
    text = [line.strip() for line in lowered(sch).splitlines()]
    at = text.index("for k in range(20):")
    assert text[at + 1 : at + 5] == [
        "unrolled i_1 in range(4):",
        "prefetch A[i_0*80 + k + i_1*20 + 3]",
        "vector(16, unrolled) j in range(32):",
        "prefetch B[k*32 + j + 96]",
    ]
    check(sch)
    # 4 rows of A, and a row of B that is two lines.
    calls = re.findall(r"call void @llvm.prefetch.p0\(ptr %\S+, i32 0, i32 3, i32 1\)", emitted(sch))
    assert len(calls) == 4 + 2
    assert "prefetch" in compile_func(sch.func, HOST).code.llvm


def test_lines_are_asked_for_once() -> None:
    sch = shifted(6, 64)
    i, _ = sch.get_loops(sch.get_block("Y"))
    sch.annotate(i, "prefetch", 1)
    sch.annotate(i, "unroll_limit", 64)
    assert emitted(sch).count("call void @llvm.prefetch") == 4
    sch = shifted(6, 64, 4)
    i, _ = sch.get_loops(sch.get_block("Y"))
    sch.annotate(i, "prefetch", 1)
    sch.annotate(i, "unroll_limit", 64)
    assert emitted(sch).count("call void @llvm.prefetch") == 4  # 16 vectors, 4 lines
    check(sch)


def test_serial_loops_inside_are_asked_for_at_their_start() -> None:
    sch = Schedule(parse_program(DENSE))
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.annotate(i, "prefetch", 2)
    prefetches = [line.strip() for line in lowered(sch).splitlines() if "prefetch" in line]
    assert prefetches == ["prefetch A[i*20 + 40]"]
    check(sch)


# --- faster arithmetic ---


def rows(*fast: str) -> Schedule:
    sch = Schedule(parse_program(ROWS))
    for name in ("most", "total"):
        i, j = sch.get_loops(sch.get_block(name))
        i0, i1 = sch.split(i, [None, 2])
        sch.reorder(i0, j, i1)
        sch.vectorize(i1, lanes=2)
    for name in fast:
        sch.annotate(sch.get_block(name), "fastmath", True)
    return sch


def test_only_the_block_that_says_so_is_fast() -> None:
    strict, fast = emitted(rows()), emitted(rows("total"))
    assert "reassoc" not in strict
    flags = {m[2]: m[1] for m in re.finditer(r"= (f(?:add|mul|sub|div)) ([a-z ]*?)(?:<|float)", fast)}
    assert flags["nnan nsz arcp contract reassoc "] in ("fadd", "fmul")
    assert all(
        ("reassoc" in line) == bool(re.search(r"= f(add|mul) ", line))
        for line in fast.splitlines()
        if re.search(r"= f(add|mul|sub|div) ", line)
    )
    assert fast.count("fcmp uno") == strict.count("fcmp uno") > 0
    check(rows("total"))


def test_a_fast_maximum_does_not_look_for_nan() -> None:
    assert "fcmp uno" not in emitted(rows("most"))
    check(rows("most", "Y", "total"))


def test_infinities_stay_what_they_are() -> None:
    kernel = Kernel(build(rows("most", "Y", "total").func, HOST))
    x = np.ones((6, 50), np.float32)
    x[0, 3], x[1, 4] = np.inf, -np.inf
    _, s = kernel(x, 2.0)
    assert s[0] == np.inf
    assert s[1] == -np.inf
    assert s[2] == 100


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("value", ["rsqrt(X[i])", "1 / sqrt(X[i])", "exp(X[i])", "tanh(X[i])"])
def test_functions_stay_what_they_are(value: str, lanes: int) -> None:
    """An estimate of a reciprocal square root is several ulp off, and has NaN at zero and at infinity."""
    results = []
    x = np.concatenate([[0, -0.0, np.inf, 1e-40, 1e-30], np.linspace(0.01, 9, 59)]).astype(np.float32)
    for fast in (False, True):
        sch = Schedule(parse_program(f"program f[N=64](X: f32[N]) -> Y: f32[N]:\n    Y[i] = {value}"))
        block = sch.get_block("Y")
        if lanes:
            sch.vectorize(sch.get_loops(block)[0], lanes=lanes)
        if fast:
            sch.annotate(block, "fastmath", True)
        results.append(Kernel(build(sch.func, HOST))(x))
    np.testing.assert_array_equal(*results)


def check(sch: Schedule) -> None:
    """The kernel agrees with the reference, which knows none of the notes."""
    rng = np.random.default_rng(0)
    func = sch.program.func
    inputs = [rng.standard_normal([e.value for e in b.shape]).astype(np.float32) for b in func.inputs]  # type: ignore[attr-defined]
    scalars = [2.0 for _ in func.scalars]
    expected = reference(sch.program)(*inputs, *scalars)
    actual = Kernel(build(sch.func, HOST))(*inputs, *scalars)
    for a, b in zip(
        actual if isinstance(actual, tuple) else (actual,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
