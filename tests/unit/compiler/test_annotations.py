"""What the notes of `annotate` make of the code: stores past the caches, prefetches, and faster arithmetic."""

from __future__ import annotations

import re

import numpy as np
import pytest

from metasched.compiler.cpu.emit.module import emit
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
    assert text[at + 1 : at + 3] == ["vector(16, unrolled) j in range(32):", "prefetch B[k*32 + j + 96]"]
    check(sch)
    # A row of B, which is two lines; what comes next in the rows of A is in lines that are there.
    calls = re.findall(r"call void @llvm.prefetch.p0\(ptr %\S+, i32 0, i32 3, i32 1\)", emitted(sch))
    assert len(calls) == 2
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


def sliced(ahead: int, *, by: str = "k_0") -> Schedule:
    """A product in slices of 10 terms, each used for 3 tiles of 4 rows; the loop `by` asks for tiles."""
    sch = Schedule(parse_program(DENSE, M=64, K=40))
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1 = sch.split(j, [None, 32])
    k0, k1 = sch.split(k, [None, 10])
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(j0, k0, i0, k1, i1, j1)
    sch.vectorize(j1, lanes=16)
    sch.annotate(sch.get_block("C"), "unroll_limit", 8)
    packed = sch.cache_read(sch.get_block("C"), "B")
    sch.transform_layout(packed, "d0, d1 -> d1//32, d0, d1%32")
    sch.annotate({"k_0": k0, "j_0": j0}[by], "prefetch_tile", ahead)
    return sch


def asked(sch: Schedule) -> list[str]:
    return [line.strip() for line in lowered(sch).splitlines() if "prefetch" in line]


def test_a_tile_is_asked_for_in_equal_parts_while_the_one_before_is_used() -> None:
    sch = sliced(1)
    # 10 terms of 32 columns in 3 * 10 passes are 11 elements a pass.
    assert asked(sch) == ["prefetch B_global[j_0*1280 + k_0*320 + i_0*110 + k_1*11 + 320] into cache 2"]
    at = [line.strip() for line in lowered(sch).splitlines()]
    assert at[at.index(asked(sch)[0]) - 1] == "for k_1 in range(10):"
    assert asked(sliced(0)) == []
    assert "i32 0, i32 2, i32 1)" in emitted(sch)  # LLVM's locality of the second cache
    check(sch)


def test_a_tile_of_several_panels_is_asked_for_by_the_loop_over_panels() -> None:
    # 40 terms in 4 * 3 * 10 passes: 11 elements a pass, and 1280 to the next panel.
    sch = sliced(1, by="j_0")
    assert asked(sch) == ["prefetch B_global[j_0*1280 + k_0*330 + i_0*110 + k_1*11 + 1280] into cache 2"]
    check(sch)


def test_what_is_used_once_and_what_quotients_decide_is_no_tile() -> None:
    sch = sliced(1)
    assert not any(" A[" in line for line in asked(sch))  # rows of A lie apart, and each is used once
    dense = Schedule(parse_program(DENSE))
    dense.annotate(dense.get_loops(dense.get_block("C"))[0], "prefetch_tile", 1)
    assert asked(dense) == []  # 20 elements of a row are less than what the hardware finds itself
    fused = Schedule(parse_program(DENSE, M=512, K=300))
    i, j, k = fused.get_loops(fused.get_block("C"))
    j0, j1 = fused.split(j, [None, 128])
    fused.reorder(i, j0, k, j1)
    fused.annotate(fused.fuse(i, j0), "prefetch_tile", 1)
    assert not any(" A[" in line for line in asked(fused))  # four iterations after one another read one row of A
    check(fused)


WINDOWS = """program windows[H=9, C=8, O=32](X: f32[H, C], K: f32[3, C, O]) -> Y: f32[H - 2, O]:
    Y[h, o] = sum[r, c](X[h + r, c] * K[r, c, o])"""


def test_runs_of_a_tile_that_lie_apart_are_asked_for_each_with_its_counterpart() -> None:
    sch = Schedule(parse_program(WINDOWS))
    h, o, r, c = sch.get_loops(sch.get_block("Y"))
    c0, c1 = sch.split(c, [None, 4])
    sch.reorder(c0, r, h, c1, o)
    sch.vectorize(o, lanes=16)
    sch.annotate(c0, "prefetch_tile", 1)
    # A row of the filter is 8 * 32 elements on; 4 * 32 of each row in 7 * 4 passes.
    assert asked(sch) == ["prefetch K[c_0*128 + r*256 + h*20 + c_1*5 + 128] into cache 2"]
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
    assert fast.count("call nsz") == strict.count("call nsz") > 0
    check(rows("total"))


def test_a_fast_maximum_does_not_look_for_nan() -> None:
    assert "llvm.maximum" in emitted(rows())
    assert "llvm.maximum" not in emitted(rows("most"))
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
