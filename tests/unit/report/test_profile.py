"""Where the time of a kernel's call goes: the parts that are told apart, what they are held against, how it is told."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import metasched as ms
from metasched.compiler.cpu.emit.counters import COUNTERS, TICKS
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower, lower_counted
from metasched.report.limits import Bound, StageLimits, ceilings_of
from metasched.report.profile import CallProfile, PartProfile
from metasched.runtime.compiled import CompiledKernel, compile_loops, parameters_of
from metasched.runtime.kernel import Kernel
from metasched.target import Target

TEXT = """program chain[N=64](A: f32[N, N]) -> D: f32[N, N]:
    first: B[i, j] = A[i, j] * 2
    total: S[i] = sum[j](B[i, j])
    last: D[i, j] = B[i, j] / S[i]
"""
# Everything in one loop on threads, and the first stage in a nest of its own.
TRACE = """trace 1 of chain[N=64]:
    first = get_block("first")
    i, j = get_loops(first)
    parallel(i)
    total = get_block("total")
    last = get_block("last")
    i_1, j_1 = get_loops(last)
    parallel(i_1)
    compute_at(total, i_1)
"""


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return ms.compile(ms.parse_program(TEXT), trace=ms.parse_trace(TRACE), target=Target.detect(2))


@pytest.fixture(scope="module")
def profile(kernel: Kernel) -> CallProfile:
    found = kernel.profile(np.ones((64, 64), np.float32), runs=3)
    assert isinstance(found, CallProfile)
    return found


def test_every_nest_has_its_time_and_what_it_has_in_a_sequence(profile: CallProfile) -> None:
    assert [(part.depth, part.blocks) for part in profile.parts][:2] == [(0, ("first",)), (0, ("total", "last"))]
    assert sum(part.share for part in profile.nests) == pytest.approx(1)
    assert all(part.seconds > 0 for part in profile.nests)
    assert all(0 < part.busy <= 1 for part in profile.nests)
    assert all(part.threads in {1, 2} for part in profile.parts)


def test_the_kernel_s_own_code_stays_as_it_is_and_the_counted_one_computes_the_same(kernel: Kernel) -> None:
    func = kernel.trace.apply_to(kernel.program).func
    plain = emit(lower(func, kernel.target), kernel.target).text
    program, parts = lower_counted(func, kernel.target, most=1 << 20)
    counted = emit(program, kernel.target).text
    assert "rdtsc" not in plain
    assert COUNTERS not in plain
    assert plain == emit(lower(func, kernel.target), kernel.target).text
    assert counted.count("call i64 @llvm.x86.rdtsc()") == 2 * len(parts) + 1
    assert {part.blocks for part in parts if part.parent is not None} >= {("total",), ("last",)}
    given = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    out = np.empty_like(given)
    variant = CompiledKernel(compile_loops(program, parameters_of(func), kernel.target))
    variant(given, out)
    assert np.array_equal(out, kernel(given))
    assert variant.symbol(TICKS)


def test_parts_that_begin_too_often_have_no_counter(kernel: Kernel) -> None:
    func = kernel.trace.apply_to(kernel.program).func
    few, many = (lower_counted(func, kernel.target, most)[1] for most in (1, 1 << 20))
    assert len(few) == 4
    assert len(many) == 6


def test_what_a_stage_does_at_least_is_counted_by_hand() -> None:
    target = Target("generic", frozenset({"avx2", "fma"}), 2, 32768, 1 << 20, 1 << 25, 64)
    func = ms.parse_program(TEXT).func
    limits = StageLimits(func, target)
    total = limits.limit_of(["total"])
    assert (total.operations, total.nbytes) == (64 * 64, 64 * 64 * 4 + 64 * 4)
    assert total.bound in {Bound.ARITHMETIC, Bound.L1}
    assert StageLimits(ms.parse_program(TEXT, N=256).func, target).limit_of(["first"]).bound is Bound.L2
    whole = limits.limit_of(["first", "total", "last"])
    assert whole.nbytes == 3 * 64 * 64 * 4 + 64 * 4
    rates = ceilings_of(target).bytes_per_s
    assert sorted(rates.values(), reverse=True) == list(rates.values())
    large = ms.parse_program(TEXT, N=4096).func
    assert StageLimits(large, target).limit_of(["first"]).bound is Bound.MEMORY


def test_no_more_of_a_table_is_read_than_there_are_iterations() -> None:
    text = "program rows[N=4, M=1000](A: f32[M], I: i32[N]) -> B: f32[N]:\n    rows: B[i] = A[I[i]]\n"
    func = ms.parse_program(text).func
    assert StageLimits(func, Target.detect(1)).limit_of(["rows"]).nbytes == 3 * 4 * 4


def test_a_loop_on_threads_inside_another_is_on_no_more_threads_than_there_are() -> None:
    text = TRACE.replace("    parallel(i)\n", "    parallel(j)\n")
    inside = ms.compile(ms.parse_program(TEXT), trace=ms.parse_trace(text), target=Target.detect(2))
    (first, *_) = inside.profile(np.ones((64, 64), np.float32), runs=2).parts
    assert first.blocks == ("first",)
    assert isinstance(first, PartProfile)
    assert first.threads in {1, 2}


def test_it_prints_as_a_table_and_reads_as_json(profile: CallProfile) -> None:
    lines = str(profile).splitlines()
    assert lines[0].startswith("chain[N=64]: ")
    assert lines[0].endswith("a call (median of 3)")
    assert lines[1].split() == [
        "time",
        "share",
        "threads",
        "busy",
        "speed",
        "of",
        "the",
        "limit",
        "bound",
        "by",
        "nest",
    ]
    assert "first (i:64 j:64)" in lines[2]
    assert "counters: " in lines[-2]
    assert "of a call, in a variant of the kernel" in lines[-2]
    data = json.loads(json.dumps(profile.to_json(), allow_nan=False))
    assert data["parts"][0]["blocks"] == ["first"]
    assert data["parts"][0]["of_limit"] == pytest.approx(profile.parts[0].of_limit)
    assert data["ceilings"]["threads"] == 2
    assert "<th" in profile._repr_html_()


def test_what_cannot_be_profiled_says_why(kernel: Kernel) -> None:
    bare = Kernel(kernel.compiled)
    with pytest.raises(ms.KernelError, match=r"made without a trace, and cannot be profiled\n  hint: use `ms"):
        bare.profile(np.ones((64, 64), np.float32))
    with pytest.raises(ms.KernelError, match="`runs` is 0"):
        kernel.profile(np.ones((64, 64), np.float32), runs=0)
    with pytest.raises(ms.KernelError, match="no argument `B`"):
        kernel.profile(B=np.ones((64, 64), np.float32))
    with pytest.raises(ms.KernelError, match=r"`A` has shape \(64, 63\)"):
        kernel.profile(np.ones((64, 63), np.float32))


def test_a_pickled_kernel_can_be_profiled(kernel: Kernel) -> None:
    again = pickle.loads(pickle.dumps(kernel))
    assert [part.blocks for part in again.profile(A=np.ones((64, 64), np.float32), runs=1).nests] == [
        ("first",),
        ("total", "last"),
    ]


WEIGHTS = """program dense[N=16](X: f32[N, N], const W: f32[N, N]) -> Y: f32[N, N]:
    scaled: V[k, j] = W[k, j] * 2
    product: Y[i, j] = sum[k](X[i, k] * V[k, j])
"""


def test_with_packed_weights_only_what_a_call_runs_is_profiled() -> None:
    program = ms.parse_program(WEIGHTS)
    kernel = ms.compile(program, trace=ms.Schedule(program).trace)
    packed = pickle.loads(pickle.dumps(kernel.pack(W=np.ones((16, 16), np.float32))))
    X = np.ones((16, 16), np.float32)
    assert [nest.blocks for nest in kernel.profile(X, X, runs=1).nests] == [("scaled",), ("product",)]
    assert [nest.blocks for nest in packed.profile(X=X, runs=1).nests] == [("product",)]
    with pytest.raises(ms.MetaschedError, match="takes 1 argument"):
        packed.profile(X, X)
