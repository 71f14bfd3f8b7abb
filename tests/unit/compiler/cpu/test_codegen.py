"""Nothing is for one kind of CPU only: kernels compile for others, use their vectors, and run on what this one has."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

from metasched import operators
from metasched.compiler.cpu.codegen import LoadedCode, compile_text
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.dtypes import DType
from metasched.errors import BuildError
from metasched.ir.nodes import Buffer, Const, Func
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.cross import AVX2, WIDE, assembly, for_sapphire_rapids, plain

SOFTMAX = """
program softmax[M=6, N=37](X: f32[M, N]) -> Y: f32[M, N]:
    highest[i] = max[j](X[i, j])
    grown[i, j] = exp(X[i, j] - highest[i])
    total[i] = sum[j](grown[i, j])
    Y[i, j] = grown[i, j] / total[i]
"""
MATMUL = """
program matmul[N=13, M=37, K=11](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
HALVES = """
program halves[N=5, M=37](A: f16[N, M], B: bf16[N, M]) -> (C: f16[N, M], D: bf16[N, M]):
    C[i, j] = f16(f32(A[i, j]) * f32(B[i, j]))
    D[i, j] = bf16(f32(A[i, j]) + f32(B[i, j]))
"""
BYTES = """
program bytes[N=7, M=37, K=9](A: u8[N, K], B: i8[K, M]) -> C: i32[N, M]:
    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
"""
LARGEST = """
program largest[N=7, M=75](A: f32[N, M], B: i8[N, M]) -> (V: f32[N], P: i64[N], W: i8[N], Q: i32[N]):
    V[i], P[i] = argmax[j](A[i, j])
    W[i], Q[i] = argmin[j](B[i, j])
"""
PROGRAMS = {"softmax": SOFTMAX, "matmul": MATMUL, "halves": HALVES, "bytes": BYTES, "largest": LARGEST}
PROGRAM = pytest.mark.parametrize("name", PROGRAMS)
# Helpers of compilers' runtime libraries, which are not there when code is loaded.
RUNTIME_CALLS = re.compile(r"\b(bl|call\w*)\s+\S*__")


def scheduled(name: str) -> tuple[Program, Func]:
    """Vectors of 16 along the rows, and a register tile where there is a product."""
    program = parse_program(PROGRAMS[name])
    sch = Schedule(program)
    for block in sch.block_names():
        loops = sch.get_loops(sch.get_block(block))
        info = sch.describe(sch.get_block(block))
        if not info.reduces:
            sch.vectorize(loops[-1], lanes=16)
        elif info.positions:
            sch.vectorize(loops[-1], lanes=32)
        elif len(loops) == 3:
            i, j, k = loops
            i0, i1 = sch.split(i, [None, 4])
            j0, j1 = sch.split(j, [None, 16])
            sch.reorder(i0, j0, k, i1, j1)
            sch.unroll(i1)
            sch.vectorize(j1, lanes=16)
    return program, sch.func


@PROGRAM
def test_arm_uses_its_vectors(name: str) -> None:
    _, func = scheduled(name)
    target = plain("cortex-a76", frozenset({"neon"}))
    text = assembly(func, target, "aarch64-unknown-linux-gnu", "cortex-a76", "+neon,+fullfp16")
    assert re.search(r"\bv\d+\.(4s|8h|16b)", text)
    if name in ("matmul", "softmax"):
        assert "fmla" in text
    assert not RUNTIME_CALLS.search(text)


@PROGRAM
@pytest.mark.parametrize(
    ("cpu", "features", "registers", "absent"),
    [
        ("haswell", frozenset(AVX2), "%ymm", "%zmm"),
        ("x86-64", frozenset({"sse2"}), "%xmm", "%ymm"),
        ("skylake-avx512", frozenset((*AVX2, *WIDE[:5])), "%zmm", "%tmm"),
    ],
)
def test_x86_uses_the_vectors_of_its_generation(
    name: str, cpu: str, features: frozenset[str], registers: str, absent: str
) -> None:
    _, func = scheduled(name)
    text = assembly(func, plain(cpu, features), "x86_64-unknown-linux-gnu", cpu, "")
    assert registers in text
    assert absent not in text
    assert not RUNTIME_CALLS.search(text)


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    return tuple(int(e.value) for e in buffer.shape if isinstance(e, Const))


def inputs(program: Program) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    ranges = {DType.U8: (0, 256), DType.I8: (-128, 128)}
    return [
        (rng.integers(*ranges[b.dtype], shape_of(b)) if b.dtype in ranges else rng.standard_normal(shape_of(b))).astype(
            b.dtype.numpy
        )
        for b in program.func.inputs
    ]


def results(program: Program, func: Func, target: Target) -> list[np.ndarray]:
    outputs = [np.zeros(shape_of(b), b.dtype.numpy) for b in program.func.outputs]
    build(func, target)(*inputs(program), *outputs)
    return outputs


@PROGRAM
@pytest.mark.parametrize("missing", [WIDE, (*WIDE, *AVX2)], ids=["avx2", "sse"])
def test_code_for_older_cpus_runs_here_and_agrees(name: str, missing: tuple[str, ...]) -> None:
    host = Target.detect(threads=1)
    program, func = scheduled(name)
    older = host.without(f for f in host.features if f in missing or f.startswith("avx512"))
    for here, there in zip(results(program, func, host), results(program, func, older), strict=True):
        if here.dtype.kind in "iu":
            np.testing.assert_array_equal(here, there)
        else:
            eps = {2: 2**-7, 4: 2**-20}[here.dtype.itemsize]
            a, b = here.astype(np.float64), there.astype(np.float64)
            np.testing.assert_allclose(a, b, rtol=eps, atol=eps * np.abs(a).max())


@pytest.mark.parametrize(
    ("trace", "cpu", "features"),
    [
        ("matmul_nn.small", "of-tomorrow", frozenset()),
        ("matmul_nn.bf16", "x86-64", frozenset({"avx512bf16"})),
    ],
)
def test_a_target_that_lists_too_little_does_not_end_the_process(
    trace: str, cpu: str, features: frozenset[str]
) -> None:
    """LLVM has no error for an instruction that it cannot select: were it told so, no test would follow this one."""
    expert = operators.expert(trace)
    func, target = expert.trace.apply_to(expert.program()).func, plain(cpu, features)
    assert compile_text(emit(lower(func, target), target).text, target).data


TILES = """
program tiles(A: f32[28, 86, 16], B: f32[3, 3, 16, 32]) -> Y: f32[26, 84, 32]:
    Y[i, j, o] = sum[r < 3, s < 3, c < 16](A[i + r, j + s, c] * B[r, s, c, o])
"""


def test_addresses_of_an_unrolled_tile_are_not_on_the_stack() -> None:
    sch = Schedule(parse_program(TILES))
    i, j, o, r, s, c = sch.get_loops(sch.get_block("Y"))
    i0, i1 = sch.split(i, [None, 2])
    j0, j1, j2, j3 = sch.split(j, [None, 2, 2, 7])
    c0, c1 = sch.split(c, [None, 8])
    sch.reorder(i0, j0, j1, c0, j2, r, s, c1, i1, j3, o)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(o, lanes=32)
    sch.annotate(sch.get_block("Y"), "unroll_limit", 256)
    text = for_sapphire_rapids(sch.func)
    assert len(re.findall(r"vfmadd\S*ps", text)) >= 224  # of 2 x 7 pixels and 8 terms, two registers each
    assert len(re.findall(r"\(%rsp\), %r", text)) < 50  # 618 where LLVM sees remainders of the counter


def test_code_in_a_cycle_of_objects_is_freed() -> None:
    """Python frees those of a cycle in any order, and LLVM's engine before or after its module."""
    code = build(parse_program(MATMUL).func, Target.detect(threads=1)).binary.code
    for _ in range(20):
        loaded: list[object] = [LoadedCode(code)]
        loaded.append(loaded)
        del loaded
        gc.collect()


def test_code_that_calls_what_is_not_there_is_refused() -> None:
    """It would run into address 0."""
    text = "declare void @nowhere()\ndefine void @f() {\n  call void @nowhere()\n  ret void\n}"
    with pytest.raises(BuildError, match=r"a library that is not there\nnowhere"):
        LoadedCode(compile_text(text, Target.detect(threads=1)))
