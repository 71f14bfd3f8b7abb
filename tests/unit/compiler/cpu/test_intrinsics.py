"""Tensor intrinsics in machine code: each does what its program says, on integers to the last bit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metasched.compiler.cpu import intrinsics as codes
from metasched.compiler.cpu.emit import tensor
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.cpu.emit.tensor import emitters
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.cost.features import NAMES, features_of
from metasched.errors import BuildError
from metasched.ir.nodes import Annotation, Func
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.schedule import intrinsics as meanings
from metasched.schedule.tensor import intrinsics, tensorized_by
from metasched.schedule.tensor import tensorized as tensorized_nests
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support import emulation
from tests.support.cross import AVX2, WIDE, assembly, for_sapphire_rapids, plain
from tests.support.targets import ALDER

HERE = Target.detect(threads=1)
GROUPS = {
    "dot_u8i8_vnni": ("u8", "i8", 4),
    "dot_i8u8_vnni": ("i8", "u8", 4),
    "dot_i8i8_vnni": ("i8", "i8", 4),
    "dot_u8i8_avxvnni": ("u8", "i8", 4),
    "dot_i8u8_avxvnni": ("i8", "u8", 4),
    "dot_i8i8_avxvnni": ("i8", "i8", 4),
    "dot_i16_avx512": ("i16", "i16", 2),
}

PACKED = """
program packed[M=5, N=48, K=24, G=4](A: {a}[M, K], B: {b}[K // G, N, G]) -> C: i32[M, N]:
    dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[k // G, j, k % G]))
"""
TRANSPOSED = """
program transposed[M=5, N=32, K=24](A: {a}[M, K], B: {b}[N, K]) -> C: i32[M, N]:
    dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[j, k]))
"""


# What other machines run as a model of it.
EMULATED = frozenset({"avxvnni"})


def runs(name: str) -> None:
    missing = intrinsics()[name].features - HERE.features - EMULATED
    if missing:
        pytest.skip(f"this machine has no {', '.join(sorted(missing))}")


def tensorized(name: str, text: str = PACKED, **params: int) -> Schedule:
    a, b, group = GROUPS[name]
    if text is PACKED:
        params["G"] = group
    sch = Schedule(parse_program(text.format(a=a, b=b), **params))
    i, j, k = sch.get_loops(sch.get_block("dot"))
    i0, i1 = sch.split(i, [None, 2])
    j0, j1 = sch.split(j, [None, intrinsics()[name].lanes])
    k0, k1 = sch.split(k, [None, group])
    sch.reorder(i0, j0, k0, i1, j1, k1)
    sch.unroll(i1)
    sch.tensorize(j1, name)
    return sch


def arguments(func: Func, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Values over the whole range of each type, and its ends often."""
    rng = np.random.default_rng(seed)
    out = []
    for buffer in func.inputs:
        info = np.iinfo(buffer.dtype.numpy)
        shape = tuple(int(e.value) for e in buffer.shape)  # type: ignore[attr-defined]
        values = rng.integers(info.min, info.max, shape, endpoint=True)
        ends = rng.choice([info.min, info.max], shape)
        out.append(np.where(rng.random(shape) < 0.3, ends, values).astype(buffer.dtype.numpy))
    return out


def _names_used(func: Func) -> list[str]:
    return [name for loop in tensorized_nests(func).values() if (name := tensorized_by(loop)) is not None]


def agrees(sch: Schedule) -> None:
    args = arguments(sch.program.func)
    expected = reference(sch.program)(*args)
    result = np.empty_like(expected)
    needed = {feature for name in _names_used(sch.func) for feature in intrinsics()[name].features}
    if needed <= HERE.features:
        build(sch.func, HERE)(*args, result)
    else:
        emulation.run(sch.func, replace(HERE, features=HERE.features | needed), *args, result)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", sorted(GROUPS))
@pytest.mark.parametrize("text", [PACKED, TRANSPOSED], ids=["packed", "strided"])
def test_results_are_exact(name: str, text: str) -> None:
    runs(name)
    agrees(tensorized(name, text))


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_a_reduction_that_is_one_use(name: str) -> None:
    """The start of the sums goes before the nest, not into it."""
    runs(name)
    agrees(tensorized(name, K=GROUPS[name][2]))


LANES = {
    "lanes_u8i8_vnni": "u8",
    "lanes_i8i8_vnni": "i8",
    "lanes_u8i8_avxvnni": "u8",
    "lanes_i8i8_avxvnni": "i8",
}
WINDOWS = """
program windows[N=9, M=32, R=4](A: {a}[N + R - 1, M], B: i8[M, R]) -> C: i32[N, M]:
    dot: C[i, j] = sum[r < R](i32(A[i + r, j]) * i32(B[j, r]))
"""


def windows(name: str) -> Schedule:
    sch = Schedule(parse_program(WINDOWS.format(a=LANES[name])))
    i, j, r = sch.get_loops(sch.get_block("dot"))
    i0, i1 = sch.split(i, [None, 3])
    j0, j1 = sch.split(j, [None, intrinsics()[name].lanes])
    sch.reorder(j0, i0, i1, j1, r)
    sch.unroll(i1)
    sch.tensorize(j1, name)
    return sch


@pytest.mark.parametrize("name", sorted(LANES))
def test_windows_lane_by_lane_are_exact(name: str) -> None:
    runs(name)
    agrees(windows(name))


def test_the_start_as_a_block_of_its_own_and_threads() -> None:
    runs("dot_u8i8_vnni")
    sch = tensorized("dot_u8i8_vnni")
    block = sch.get_block("dot")
    i0, _, k0 = sch.get_loops(block)[:3]
    sch.decompose_reduction(block, k0)
    sch.parallel(i0)
    agrees(sch)


def test_a_packed_copy() -> None:
    runs("dot_u8i8_vnni")
    text = """
    program mm[M=4, N=32, K=16](A: u8[M, K], B: i8[K, N]) -> C: i32[M, N]:
        dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
    """
    sch = Schedule(parse_program(text))
    block = sch.get_block("dot")
    sch.transform_layout(sch.cache_read(block, "B"), "k, j -> k // 4, j, k % 4")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.tensorize(j1, "dot_u8i8_vnni")
    agrees(sch)


def test_operands_that_are_copied_and_loops_that_are_partitioned() -> None:
    runs("dot_u8i8_vnni")
    sch = tensorized("dot_u8i8_vnni")
    block = sch.get_block("dot")
    i0, j0, k0 = sch.get_loops(block)[:3]
    sch.compute_at(sch.cache_read(block, "A", "local"), k0)
    written = sch.cache_write(block, "register")
    sch.reverse_compute_at(written, j0)
    sch.vectorize(sch.get_loops(written)[-1], lanes=16)
    sch.loop_partition(i0)
    agrees(sch)


def test_accumulators_stay_in_registers_around_the_reduction() -> None:
    text = print_kernel(lower(tensorized("dot_u8i8_vnni", M=6).func, HERE))
    assert (
        text[text.index("    for i_0") :]
        == """\
    for i_0 in range(3):
        for j_0 in range(3):
            unrolled i_1_tile in range(2):
                vector(16) j_1_tile in range(16):
                    C.acc[i_1_tile*16 + j_1_tile] = 0
            for k_0 in range(6):
                unrolled i_1 in range(2):
                    dot_u8i8_vnni(C.acc[i_1*16; strides 1], A[i_0*48 + k_0*4 + i_1*24; strides 1], \
B[j_0*64 + k_0*192; strides 4, 1])
            unrolled i_1_tile_1 in range(2):
                vector(16) j_1_tile_1 in range(16):
                    C[i_0*96 + j_0*16 + i_1_tile_1*48 + j_1_tile_1] = C.acc[i_1_tile_1*16 + j_1_tile_1]
"""
    )


def test_one_instruction_a_use() -> None:
    runs("dot_u8i8_vnni")
    assert build(tensorized("dot_u8i8_vnni", M=6).func, HERE).asm.count("vpdpbusd") == 2


@pytest.mark.parametrize(("name", "form"), [("dot", tensorized), ("lanes", windows)])
@pytest.mark.parametrize("types", ["u8i8", "i8i8"])
def test_the_short_form_is_for_machines_without_avx_512(name: str, form: Callable[..., Schedule], types: str) -> None:
    sch = form(f"{name}_{types}_avxvnni")
    text = assembly(sch.func, ALDER, "x86_64-unknown-linux-gnu", "alderlake", ALDER.llvm_features())
    dots = [line for line in text.splitlines() if "vpdpbusd" in line]
    assert dots
    assert all("{vex}" in line and "%ymm" in line for line in dots), dots
    assert "%zmm" not in text


@pytest.mark.parametrize("name", ["dot_u8i8_vnni", "dot_i8i8_vnni"])
@pytest.mark.parametrize(("release", "argument"), [(20, "<16 x i32>"), (21, "<16 x i32>"), (22, "<64 x i8>")])
def test_the_declaration_is_that_of_the_llvm_there_is(
    name: str, release: int, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor, "llvm_release", lambda: release)
    target = plain("sapphirerapids", frozenset((*AVX2, *WIDE)))
    text = emit(lower(tensorized(name).func, target), target).text
    assert f"@llvm.x86.avx512.vpdpbusd.512(<16 x i32>, {argument}, {argument})" in text


def test_a_target_without_the_instruction() -> None:
    less = HERE.without({"avx512vnni"})
    message = f"target lacks avx512vnni\n`dot_u8i8_vnni` needs avx512vnni, and the target is {HERE.name}\n  hint: leave"
    with pytest.raises(BuildError, match=message):
        build(tensorized("dot_u8i8_vnni").func, less)


def test_a_nest_that_was_changed_behind_the_schedule() -> None:
    sch = tensorized("dot_u8i8_vnni")
    other = sch.func.map(lambda n: n)

    def renamed(node: Any) -> Any:
        return Annotation("tensorize", "dot_i16_avx512") if isinstance(node, Annotation) else node.map(renamed)

    with pytest.raises(BuildError, match="tensorized nest changed"):
        lower(other.map(renamed), HERE)


def test_the_model_of_cost_sees_lanes() -> None:
    sch = tensorized("dot_u8i8_vnni")
    assert features_of(sch.func, HERE)[NAMES.index("s0.lanes")] == np.float32(np.log2(17))


NARROW = '''\
"""vpdpbusd on registers of {bits} bits."""

FEATURES = ("avx512vnni", "avx512vl")
VECTOR_BITS = {bits}

PROGRAM = """
program dot_narrow(A: u8[4], B: i8[{lanes}, 4]) -> C: i32[{lanes}]:
    C[j] = sum[k](i32(A[k]) * i32(B[j, k]))
"""
'''
EMIT_NARROW = '''\
"""One vpdpbusd."""

from metasched.compiler.cpu.emit.tensor import TensorOperands
from metasched.dtypes import DType


def emit(operands: TensorOperands) -> None:
    """C += A . B."""
    a, b = operands.dot_argument(operands.repeated("A")), operands.dot_argument(operands.groups("B"))
    operands.store("C", operands.call("llvm.x86.avx512.vpdpbusd.{bits}", DType.I32, operands.load("C"), a, b))
'''


def write_pair(folder: Path, monkeypatch: pytest.MonkeyPatch, description: str, emitter: str) -> None:
    for package, text in ((meanings, description), (codes, emitter)):
        place = folder / package.__name__
        place.mkdir()
        (place / "dot_narrow.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(place)])
        monkeypatch.delitem(sys.modules, f"{package.__name__}.dot_narrow", raising=False)


@pytest.fixture
def registries() -> Iterator[None]:
    intrinsics.cache_clear()
    emitters.cache_clear()
    yield
    intrinsics.cache_clear()
    emitters.cache_clear()


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(("bits", "register"), [(128, "%xmm"), (256, "%ymm")])
def test_an_intrinsic_of_another_width_is_its_pair_of_files(
    bits: int, register: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = bits // 32
    write_pair(tmp_path, monkeypatch, NARROW.format(bits=bits, lanes=lanes), EMIT_NARROW.format(bits=bits))
    sch = Schedule(parse_program(PACKED.format(a="u8", b="i8")))
    i, j, k = sch.get_loops(sch.get_block("dot"))
    j0, j1 = sch.split(j, [None, lanes])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.tensorize(j1, "dot_narrow")
    text = for_sapphire_rapids(sch.func)
    dots = [line for line in text.splitlines() if "vpdpbusd" in line]
    assert dots
    assert all(register in line for line in dots), dots
    runs("dot_narrow")
    agrees(sch)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            ("VECTOR_BITS", "VECTOR_BIT"),
            r"dot_narrow\.py\): there is no `VECTOR_BIT`\n  hint: did you mean `VECTOR_BITS`\?",
        ),
        (("FEATURES", "_FEATURES"), r"dot_narrow\.py\): it does not say `FEATURES`"),
    ],
)
def test_a_misspelt_name_is_an_error(
    wrong: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    description = NARROW.format(bits=256, lanes=8).replace(*wrong)
    write_pair(tmp_path, monkeypatch, description, EMIT_NARROW.format(bits=256))
    with pytest.raises(TypeError, match=message):
        intrinsics()


@pytest.mark.usefixtures("registries")
def test_an_emitter_says_nothing_that_its_description_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pair(tmp_path, monkeypatch, NARROW.format(bits=256, lanes=8), "LANES = 8\n" + EMIT_NARROW.format(bits=256))
    with pytest.raises(TypeError, match=r"emitter dot_narrow .*there is no `LANES`"):
        emitters()


@pytest.mark.usefixtures("registries")
def test_a_description_without_an_emitter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pair(tmp_path, monkeypatch, NARROW.format(bits=256, lanes=8), EMIT_NARROW.format(bits=256))
    monkeypatch.setattr(codes, "__path__", list(codes.__path__)[:-1])
    with pytest.raises(TypeError, match="tensor intrinsic `dot_narrow` has no emitter"):
        emitters()


def test_descriptions_and_emitters_are_one_to_one() -> None:
    assert set(emitters()) == set(intrinsics()) > set(GROUPS)
