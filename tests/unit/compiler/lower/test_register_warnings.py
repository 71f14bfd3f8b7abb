"""A kernel says what does not fit in registers: before there is code, and from the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from metasched.cli.main import main
from metasched.compiler.cpu import spills
from metasched.compiler.cpu.codegen import ObjectCode
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.ir.nodes import Load
from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target

# 32 registers of 512 bits, and 16 of 256, whatever runs this.
WIDE = Target.parse("name=x threads=1 l1=32768 l2=1048576 l3=33554432 cacheline=64 features=avx,avx2,avx512f,sse")
NARROW = WIDE.without(["avx512f"])
DENSE = """program dense[N=64, M=96, K=80](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])"""
FILTER = """program filter[W=65, C=32, R=9](X: f32[W + 8, C], K: f32[R, C]) -> Y: f32[W, C]:
    Y[w, c] = sum[r](X[w + r, c] * K[r, c])"""
ASM = """
region.0:                               # @region.0
# %bb.0:                                # %entry
	vmovups	%zmm1, 64(%rsp)                 # 64-byte Spill
.LBB3_5:                                #   in Loop: Header=BB3_4 Depth=2
	vmovups	128(%rsp), %zmm3                # 64-byte Reload
.LBB3_2:                                # %loop.i_0.4
                                        # =>This Loop Header: Depth=1
                                        #     Child Loop BB3_4 Depth 2
	vmovups	%zmm1, 64(%rsp)                 # 64-byte Spill
.LBB3_4:                                # %loop.k.strip16.3.47
                                        #   Parent Loop BB3_2 Depth=1
                                        # =>  This Inner Loop Header: Depth=2
	vaddps	64(%rsp), %zmm1, %zmm2          # 64-byte Folded Reload
	vmovups	%zmm1, 64(%rsp)                 # 64-byte Spill
	movq	%rax, 8(%rsp)                   # 8-byte Spill
# %bb.6:                                # %done.48
                                        #   in Loop: Header=BB3_2 Depth=1
	vmovups	128(%rsp), %zmm3                # 64-byte Reload
.LBB4_1:                                # %loop.j.2
                                        # =>This Inner Loop Header: Depth=1
	movq	8(%rsp), %rax                   # 8-byte Reload
"""


def dense(rows: int, columns: int) -> Schedule:
    sch = Schedule(parse_program(DENSE))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, columns])
    sch.reorder(i0, j0, k, i1, j1)
    sch.vectorize(j1, lanes=16)
    sch.annotate(block, "unroll_limit", 64)
    return sch


def filtered(pixels: int) -> Schedule:
    """The nine vectors of the filter are the same everywhere, and accumulators take up to 26 registers."""
    sch = Schedule(parse_program(FILTER))
    block = sch.get_block("Y")
    w, c, r = sch.get_loops(block)
    w0, w1 = sch.split(w, [None, pixels])
    sch.reorder(w0, r, w1, c)
    sch.vectorize(c, lanes=16)
    sch.unroll(r)
    sch.annotate(block, "unroll_limit", 512)
    return sch


def test_accumulators_that_do_not_fit() -> None:
    assert lower(dense(14, 32).func, WIDE).warnings == ()
    what = "the accumulators of `C` stay in memory: they take {} vector registers, and {} are left. "
    hint = "Make its innermost tile smaller"
    assert lower(dense(16, 32).func, WIDE).warnings == (what.format(32, 31) + hint,)
    assert lower(dense(14, 32).func, NARROW).warnings == (what.format(56, 15) + hint,)


def test_accumulators_that_fit_further_in_are_no_matter() -> None:
    sch = Schedule(parse_program(DENSE))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 16])
    j0, j1 = sch.split(j, [None, 32])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    sch.vectorize(j1, lanes=16)
    sch.unroll(i1)
    sch.annotate(block, "unroll_limit", 2)
    promoted = lower(sch.func, WIDE)
    assert [a.name for a in promoted.arrays if a.kind is ArrayKind.REGISTER] == ["C.acc"]
    assert promoted.warnings == ()


def test_a_tile_that_is_a_loop() -> None:
    sch = Schedule(parse_program(DENSE))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 32])
    sch.reorder(i0, j0, k, i1, j1)
    sch.vectorize(j1, lanes=16)
    what = "the accumulators of `C` stay in memory: they would take 8 vector registers, and "
    hint = 'Unroll the tile: annotate(block, "unroll_limit", 8)'
    assert lower(sch.func, WIDE).warnings == (f"{what}`i_1` and `j_1` are not unrolled. {hint}",)
    sch.unroll(i1)
    assert lower(sch.func, WIDE).warnings == (f"{what}`j_1` is not unrolled. {hint.replace('8', '2')}",)
    sch.annotate(block, "unroll_limit", 2)
    assert lower(sch.func, WIDE).warnings == ()


def test_vectors_of_fewer_elements_than_lanes() -> None:
    """Two neighbouring vectors of two elements are two registers, whatever lanes were asked for."""
    sch = Schedule(parse_program(DENSE, M=6))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1, j2 = sch.split(j, [None, 3, 2])
    sch.reorder(i, j0, k, j1, j2)
    sch.vectorize(j2, lanes=16)
    sch.unroll(j1)
    kernel = lower(sch.func, WIDE)
    assert kernel.warnings == ()
    (accumulators,) = (a for a in kernel.arrays if a.kind is ArrayKind.REGISTER)
    assert accumulators.size == 6


@pytest.mark.parametrize(("n", "m", "rows"), [(130, 130, 13), (130, 130, 8), (128, 130, 4), (130, 128, 8), (7, 20, 4)])
def test_a_clipped_tile_that_is_a_loop(n: int, m: int, rows: int) -> None:
    sch = Schedule(parse_program(DENSE, N=n, M=m))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1, j2 = sch.split(j, [None, 2, 16])
    sch.reorder(i0, j0, k, i1, j1, j2)
    sch.vectorize(j2, lanes=16)
    (said,) = lower(sch.func, WIDE).warnings
    assert said == (
        f"the accumulators of `C` stay in memory: they would take {2 * rows} vector registers, and `i_1` and `j_1` are "
        f'not unrolled. Unroll the tile: annotate(block, "unroll_limit", {2 * rows})'
    )
    sch.annotate(block, "unroll_limit", 2 * rows)
    unrolled = lower(sch.func, WIDE)
    assert unrolled.warnings == ()
    assert not any(isinstance(node, Load) and node.buffer == "C" for node in unrolled.body.walk())


@pytest.mark.parametrize("terms", [16, 40])
def test_lanes_of_rows_that_are_a_loop(terms: int) -> None:
    sch = Schedule(parse_program(DENSE))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 4])
    k0, k1 = sch.split(k, [None, terms])
    sch.reorder(i0, j, k0, i1, k1)
    sch.vectorize(k1, lanes=16)
    (said,) = lower(sch.func, WIDE).warnings
    assert said.startswith(
        "the accumulators of `C` stay in memory: they would take 4 vector registers, and `i_1` is not"
    )
    sch.unroll(i1)
    assert lower(sch.func, WIDE).warnings == ()


def test_lanes_of_too_many_rows() -> None:
    sch = Schedule(parse_program(DENSE))
    i, j, k = sch.get_loops(sch.get_block("C"))
    k0, k1 = sch.split(k, [None, 40])
    sch.reorder(j, k0, i, k1)
    sch.vectorize(k1, lanes=16)
    assert lower(sch.func, WIDE).warnings == ()
    sch.unroll(i)
    (said,) = lower(sch.func, WIDE).warnings
    assert said.startswith("the accumulators of `C` stay in memory: they take 64 vector registers, and 31 are left")


def test_rows_that_no_registers_would_hold_are_no_tile() -> None:
    sch = Schedule(parse_program(DENSE, M=4096))
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, k, j)
    sch.vectorize(j, lanes=16)
    assert lower(sch.func, WIDE).warnings == ()


def test_spills_are_counted_in_innermost_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spills, "commented_assembly", lambda code: ASM)
    (said,) = spills.spill_warnings(ObjectCode(WIDE, b"", ""))
    assert said == (
        "the innermost loop `k` spills: 1 store and 2 loads of vectors that do not fit in 32 registers. "
        "Make its tile smaller"
    )


def test_a_kernel_tells_of_both() -> None:
    host = Target.detect(threads=1)
    if not {"avx512f"} & host.features:
        pytest.skip("the tiles are for 32 registers")
    assert Kernel(build(dense(14, 32).func, host)).warnings == ()
    (declined,) = Kernel(build(dense(16, 32).func, host)).warnings
    assert declined.startswith("the accumulators of `C` stay in memory")
    (spilled,) = Kernel(build(filtered(13).func, host)).warnings
    assert spilled.startswith("the innermost loop `w_0` spills: ")


def test_show_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, trace = tmp_path / "dense.ms", tmp_path / "a.trace"
    program.write_text(DENSE)
    sizes = ["show", str(program), "--trace", str(trace), "--threads", "1"]
    trace.write_text(str(dense(16, 32).trace))
    for view in ([], ["--loops"], ["--asm"]):
        assert main([*sizes, *view]) == 0
        assert "warning: the accumulators of `C` stay in memory" in capsys.readouterr().err
    trace.write_text(str(dense(2, 16).trace))
    assert main(sizes) == 0
    assert capsys.readouterr().err == ""


def test_show_says_what_does_not_compile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sch = Schedule(parse_program(DENSE))
    for loop in sch.get_loops(sch.get_block("C")):
        sch.unroll(loop)
    program, trace = tmp_path / "dense.ms", tmp_path / "a.trace"
    program.write_text(DENSE)
    trace.write_text(str(sch.trace))
    assert main(["show", str(program), "--trace", str(trace)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("func dense(")
    assert err.startswith("warning: this schedule does not compile: ")


def test_rows_that_a_stride_leaves_out_take_no_registers() -> None:
    sch = Schedule(parse_program(DENSE))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    rows, parity = sch.split(i, [None, 2])
    i0, i1 = sch.split(rows, [None, 8])
    j0, j1 = sch.split(j, [None, 48])
    sch.reorder(i0, parity, j0, k, i1, j1)
    sch.vectorize(j1, lanes=16)
    sch.annotate(block, "unroll_limit", 64)
    found = lower(sch.func, WIDE)
    assert found.warnings == ()
    assert [array.name for array in found.arrays if array.kind is ArrayKind.REGISTER] == ["C.acc"]
