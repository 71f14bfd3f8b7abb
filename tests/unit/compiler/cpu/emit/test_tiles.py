"""Products of bf16, and of tiles: in assembly for a CPU that has the instructions, and run here on a model of them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metasched.compiler.cpu.emit.runtime import Status
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.cost.features import NAMES, features_of
from metasched.errors import BuildError, KernelError, ScheduleError
from metasched.ir.nodes import Func
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime import threads
from metasched.runtime.compiled import build, compile_func
from metasched.runtime.export import loader
from metasched.schedule.tensor import intrinsics
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.cross import AMX, WIDE, for_sapphire_rapids
from tests.support.emulation import run

HERE = Target.detect(threads=1)
ABLE = Target(HERE.name, HERE.features | {"avx512bf16", *AMX}, 1, HERE.l1, HERE.l2, HERE.l3)
# Its code has vectors of 512 bits, which this machine may lack: it is compiled only.
WIDER = replace(ABLE, features=ABLE.features | set(WIDE))
# Element types, elements of a group, instruction.
TILES = {
    "tile_bf16_amx": ("bf16", "bf16", "f32", 2, "tdpbf16ps"),
    "tile_u8i8_amx": ("u8", "i8", "i32", 4, "tdpbusd"),
    "tile_i8i8_amx": ("i8", "i8", "i32", 4, "tdpbssd"),
}
NAME = pytest.mark.parametrize("name", TILES)

PRODUCT = """
program product[M=64, N=64, K=128, G=2](A: {a}[M, K], B: {b}[K // G, N, G]) -> C: {c}[M, N]:
    dot: C[i, j] = sum[k]({c}(A[i, k]) * {c}(B[k // G, j, k % G]))
"""
DOT = """
program product[M=5, N=48, K=12](A: bf16[M, K], B: bf16[K // 2, N, 2]) -> C: f32[M, N]:
    dot: C[i, j] = sum[k](f32(A[i, k]) * f32(B[k // 2, j, k % 2]))
"""


def tiled(name: str, rows: int = 2, columns: int = 2, text: str = PRODUCT, **sizes: int) -> Schedule:
    """`rows` x `columns` tiles at a time."""
    a, b, c, group, _ = TILES[name]
    sch = Schedule(parse_program(text.format(a=a, b=b, c=c), **{"K": 64 * group, "G": group, **sizes}))
    block = sch.get_block("dot")
    if c == "f32":
        sch.annotate(block, "flush_denormals", True)
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, rows, 16])
    j0, j1, j2 = sch.split(j, [None, columns, 16])
    k0, k1, k2 = sch.split(k, [None, 16, group])
    sch.reorder(i0, j0, k0, i1, j1, i2, j2, k1, k2)
    sch.tensorize(i2, name)
    sch.unroll(i1)
    sch.unroll(j1)
    return sch


def dotted(text: str = DOT) -> Schedule:
    sch = Schedule(parse_program(text))
    block = sch.get_block("dot")
    sch.annotate(block, "flush_denormals", True)
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 2])
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.unroll(i1)
    sch.tensorize(j1, "dot_bf16_avx512")
    return sch


def arguments(func: Func) -> list[np.ndarray[Any, Any]]:
    """Integers over the whole range of their types, and small ones in bf16, whose sums are exact in any order."""
    rng = np.random.default_rng(0)
    out = []
    for buffer in func.inputs:
        dtype = buffer.dtype.numpy
        low, high = (-9, 9) if buffer.dtype.is_float else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        shape = tuple(int(e.value) for e in buffer.shape)  # type: ignore[attr-defined]
        out.append(rng.integers(low, high, shape, endpoint=True).astype(dtype))
    return out


def modelled(sch: Schedule) -> dict[str, int]:
    """How often each instruction ran; the results are those of the reference."""
    args = arguments(sch.program.func)
    expected = reference(sch.program)(*args)
    result = np.full_like(expected, 77)
    model = run(sch.func, ABLE, *args, result)
    np.testing.assert_array_equal(result, expected)
    return model.done


# --- results ---------------------------------------------------------------------------------------------


@NAME
def test_tiles_are_loaded_once_a_step(name: str) -> None:
    """Four blocks of four tiles; of each step of 4, two tiles of A and two of B."""
    done = modelled(tiled(name))
    assert done == {
        "ldtilecfg": 1,
        "tilerelease": 1,
        "tilezero": 16,
        "tileloadd64": 4 * 4 * 4,
        "tilestored64": 16,
        TILES[name][4]: 64,
    }


@pytest.mark.parametrize(("rows", "columns", "loads"), [(1, 1, 2), (1, 4, 5), (2, 1, 3), (3, 2, 9)])
def test_register_tiles(rows: int, columns: int, loads: int) -> None:
    """A tile of A and of B is loaded once a step where enough registers are left; six accumulators leave two."""
    done = modelled(tiled("tile_u8i8_amx", rows, columns, M=16 * rows))
    blocks = 4 // columns
    assert done["tilestored64"] == 4 * rows
    assert done["tileloadd64"] == 4 * blocks * loads


def test_more_accumulators_than_registers_go_through_memory() -> None:
    done = modelled(tiled("tile_i8i8_amx", 4, 2))
    assert done["tilestored64"] == done["tdpbssd"] == 64


def test_tiles_that_are_not_there() -> None:
    """Three tiles of rows, two at a time: the fourth is under a condition."""
    text = PRODUCT.replace("A: {a}[M, K]", "A: {a}[T, M, K]").replace("C: {c}[M, N]", "C: {c}[T, M, N]")
    text = text.replace("C[i, j]", "C[t, i, j]").replace("A[i, k]", "A[t, i, k]").replace("M=64", "T=3, M=16")
    sch = Schedule(parse_program(text.format(a="u8", b="i8", c="i32"), G=4))
    t, i2, j, k = sch.get_loops(sch.get_block("dot"))
    i0, i1 = sch.split(t, [None, 2])
    (j0, j1), (k0, k1, k2) = sch.split(j, [None, 16]), sch.split(k, [None, 16, 4])
    sch.reorder(i0, j0, k0, i1, i2, j1, k1, k2)
    sch.tensorize(i2, "tile_u8i8_amx")
    sch.unroll(i1)
    done = modelled(sch)
    assert done["tdpbusd"] == 3 * 4 * 2
    assert done["tilestored64"] == 3 * 4


def test_sums_that_start_from_something() -> None:
    text = PRODUCT.replace("B: {b}[K // G, N, G])", "B: {b}[K // G, N, G], S: {c}[N])").replace(
        "-> C: {c}[M, N]", "-> D: {c}[M, N]"
    )
    sch = tiled("tile_i8i8_amx", text=text + "    out: D[i, j] = C[i, j] + S[j]\n")
    done = modelled(sch)
    assert done["tilezero"] == 16
    fused = Schedule(parse_program((text + "    out: D[i, j] = C[i, j] + S[j]\n").format(a="i8", b="i8", c="i32"), G=4))
    fused.fuse_reduction_epilogue(fused.get_block("dot"), fused.get_block("out"))
    i, j, k = fused.get_loops(fused.get_block("dot"))
    (i0, i1), (j0, j1), (k0, k1, k2) = (
        fused.split(i, [None, 16]),
        fused.split(j, [None, 16]),
        fused.split(k, [None, 16, 4]),
    )
    fused.reorder(i0, j0, k0, i1, j1, k1, k2)
    fused.tensorize(i1, "tile_i8i8_amx")
    assert "tilezero" not in modelled(fused)


def test_parallel_loops_on_one_thread_and_a_copy_written_between() -> None:
    text = """
    program product[M=32, N=32, K=128](A: i8[M, K], B: i8[K, N]) -> C: i32[M, N]:
        dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
    """
    sch = Schedule(parse_program(text))
    block = sch.get_block("dot")
    packed = sch.cache_read(block, "B", "local")
    sch.transform_layout(packed, "k, j -> k // 4, j, k % 4")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 16])
    j0, j1 = sch.split(j, [None, 16])
    k0, k1, k2 = sch.split(k, [None, 16, 4])
    sch.reorder(i0, j0, k0, i1, j1, k1, k2)
    sch.compute_at(packed, k0)
    sch.tensorize(i1, "tile_i8i8_amx")
    sch.parallel(i0)
    done = modelled(sch)
    assert done["tileloadd64"] == 2 * done["tdpbssd"]


def test_pairs_of_bf16() -> None:
    assert modelled(dotted()) == {}


def test_pairs_of_bf16_that_are_apart() -> None:
    text = DOT.replace("B: bf16[K // 2, N, 2]", "B: bf16[N, K]").replace("B[k // 2, j, k % 2]", "B[j, k]")
    modelled(dotted(text))


def test_the_model_has_one_thread_where_numba_says_how_many_there_are() -> None:
    """Its layer may have been launched by any test before."""
    sch = tiled("tile_i8i8_amx", M=512)
    sch.parallel(sch.get_loops(sch.get_block("dot"))[0])
    threads.state.load()
    threads.state.launch_numba()
    args = arguments(sch.program.func)
    assert run(sch.func, ABLE.with_threads(2), *args, np.empty((512, 64), np.int32)).done["ldtilecfg"] == 1


@pytest.mark.parametrize("name", [*TILES, "dot_bf16_avx512"])
def test_on_a_cpu_that_has_it(name: str) -> None:
    missing = intrinsics()[name].features - HERE.features
    if missing:
        pytest.skip(f"this machine has no {', '.join(sorted(missing))}")
    sch = tiled(name) if name in TILES else dotted()
    args = arguments(sch.program.func)
    expected = reference(sch.program)(*args)
    result = np.empty_like(expected)
    build(sch.func, HERE)(*args, result)
    np.testing.assert_array_equal(result, expected)


# --- code ------------------------------------------------------------------------------------------------


def functions(asm: str) -> dict[str, str]:
    """By name; labels inside begin with @."""
    text = re.sub(r"^\.L.*\n", lambda found: found[0].replace(".L", "@L"), asm, flags=re.MULTILINE)
    parts = re.split(r"^([\w.]+):\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@NAME
def test_configuration_is_outside_of_loops(name: str) -> None:
    sch = tiled(name)
    sch.parallel(sch.get_loops(sch.get_block("dot"))[0])
    found = functions(for_sapphire_rapids(sch.func))
    phase = found["phase.0.0"]
    before = phase.index("@LBB")
    assert (phase.count("ldtilecfg"), phase.count("tilerelease")) == (1, 1)
    assert phase.index("ldtilecfg") < before
    assert phase.index("tilerelease") > phase.rindex("tilestored")
    assert phase.count(TILES[name][4]) == 4
    assert phase.count("tileloadd") == 4
    assert "ldtilecfg" not in found["body"]
    innermost = phase[phase.rindex("@LBB", 0, phase.index("tileloadd")) : phase.index("tilestored")]
    assert "tilezero" not in innermost


def test_configuration_is_for_the_phases_that_use_it() -> None:
    """A copy of an operand and the product that reads it, in one region."""
    sch = tiled("tile_u8i8_amx")
    copied, product = sch.cache_read(sch.get_block("dot"), "B", scope="global"), sch.get_block("dot")
    loops = [sch.get_loops(block)[0] for block in (copied, product)]
    for loop in loops:
        sch.parallel(loop)
    sch.merge_parallel(*loops)
    found = functions(for_sapphire_rapids(sch.func))
    assert [found[name].count("ldtilecfg") for name in ("phase.0.0", "phase.0.1", "body")] == [0, 1, 0]


def test_what_runs_before_a_parallel_loop_is_configured_again_after_it() -> None:
    text = PRODUCT.replace("-> C: {c}[M, N]", "-> (C: {c}[M, N], D: {a}[M, K])") + "    D[i, k] = A[i, k] + A[i, k]\n"
    text = text.replace("    dot:", "    copy: D[i, k] = A[i, k] + A[i, k]\n    dot:").rsplit("    D[i, k] =", 1)[0]
    sch = tiled("tile_i8i8_amx", text=text)
    sch.parallel(sch.get_loops(sch.get_block("copy"))[0])
    body = functions(for_sapphire_rapids(sch.func))["body"]
    assert body.count("ldtilecfg") == 2
    assert body.count("tilerelease") == 1


def test_one_instruction_a_use_of_pairs() -> None:
    asm = for_sapphire_rapids(dotted(DOT.replace("M=5", "M=6")).func)
    assert asm.count("vdpbf16ps") == 2
    assert "vpinsr" not in asm


def test_accumulators_in_the_low_level_program() -> None:
    text = print_kernel(lower(tiled("tile_i8i8_amx", 1, 2, M=16, N=32).func, ABLE))
    assert (
        text[text.index("    unrolled") :]
        == """\
    unrolled j_1_tile in range(2):
        C.acc[j_1_tile*256; strides 16, 1] = zeros
    for k_0 in range(4):
        unrolled j_1 in range(2):
            tile_i8i8_amx(C.acc[j_1*256; strides 16, 1], A[k_0*64; strides 256, 4, 1], \
B[k_0*2048 + j_1*64; strides 128, 4, 1])
    unrolled j_1_tile_1 in range(2):
        C[j_1_tile_1*16; strides 32, 1] = C.acc[j_1_tile_1*256; strides 16, 1]
"""
    )


def test_the_model_of_cost_sees_lanes() -> None:
    assert features_of(tiled("tile_u8i8_amx").func, ABLE)[NAMES.index("s0.lanes")] == np.float32(np.log2(17))


# --- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TILES, "dot_bf16_avx512"])
def test_a_target_without_the_instruction(name: str) -> None:
    func = (tiled(name) if name in TILES else dotted()).func
    needed = sorted(intrinsics()[name].features)
    for feature in needed:
        without = ABLE.without({feature})  # what builds on it is away with it
        lacking = [each for each in needed if each not in without.features]
        with pytest.raises(BuildError, match=f"target lacks {lacking[0]}\n`{name}` needs {', '.join(lacking)}, and"):
            build(func, without)


def called_without_permission() -> None:
    """Print what a call says on a machine that has no tile registers to give."""
    sch = tiled("tile_i8i8_amx")
    with pytest.MonkeyPatch.context() as pretended:
        pretended.setattr("metasched.runtime.compiled.lacking_here", lambda target: ())  # as where the CPU has them
        kernel = build(sch.func, ABLE)
    try:
        kernel(*arguments(sch.program.func), np.empty((64, 64), np.int32))
    except KernelError as error:
        print(error)


@pytest.mark.skipif("amx-tile" in HERE.features, reason="this machine has tile registers to give")
def test_a_system_that_does_not_give_tile_registers() -> None:
    """The request comes before any instruction on tiles: nothing else of this kernel could run here.

    In a process of its own, which an instruction that this CPU lacks would end.
    """
    code = "from tests.unit.compiler.cpu.emit import test_tiles; test_tiles.called_without_permission()"
    root = str(Path(__file__).parents[5])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "does not give the process AMX's tile registers" in done.stdout, done.stderr


def test_kernels_without_tiles_do_not_ask() -> None:
    assert "syscall" not in compile_func(dotted().func, WIDER).code.llvm


@pytest.mark.parametrize("name", ["tile_bf16_amx", "dot_bf16_avx512"])
def test_denormals_are_flushed_on_request_only(name: str) -> None:
    sch = tiled(name) if name in TILES else dotted()
    block = sch.get_block("dot")
    loop = sch.get_loops(block)[5 if name in TILES else 4]
    with pytest.raises(ScheduleError, match="takes denormals for zero, which block `dot` does not allow"):
        sch.unannotate(block, "flush_denormals")
    sch.unannotate(loop, "tensorize")
    sch.unannotate(block, "flush_denormals")
    with pytest.raises(ScheduleError, match=r'annotate\(dot, "flush_denormals", True\) allows it'):
        sch.tensorize(loop, name)


def test_rows_with_gaps() -> None:
    text = PRODUCT.replace("B: {b}[K // G, N, G]", "B: {b}[K // G, N, 2 * G]")
    with pytest.raises(ScheduleError) as info:
        tiled("tile_bf16_amx", text=text)
    assert "`B` has gaps along loop `j_2`, where the intrinsic's `B` has rows without" in str(info.value)
    assert 'transform_layout(cache_read(block, "B"), "k, j -> k//2, j, k%2")' in str(info.value)


def test_rows_that_are_aligned_apart() -> None:
    """Seen when rows are laid out: the distance between them is not in the program's shapes."""
    text = """
    program product[N=16](A: i8[16, 64], X: i8[16, N, 4]) -> C: i32[16, N]:
        B[k, j, p] = X[k, j, p]
        dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[k // 4, j, k % 4]))
    """
    sch = Schedule(parse_program(text))
    block = sch.get_block("dot")
    sch.storage_align(sch.get_block("B"), 1, 8, 0)
    i, j, k = sch.get_loops(block)
    k1, k2 = sch.split(k, [None, 4])
    sch.reorder(i, j, k1, k2)
    sch.tensorize(i, "tile_i8i8_amx")
    with pytest.raises(BuildError, match="tensor operand not contiguous\n`B` in block `dot` has a stride of 8 along"):
        lower(sch.func, ABLE)


def test_an_exported_kernel_knows_the_refusal() -> None:
    assert loader._NO_TILES_STATUS == Status.NO_TILES
