"""The kernels that time tensor intrinsics use nothing else, and compute what they should; times are not asserted."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metasched as ms
from metasched.calibration.cycles import CycleCounter
from metasched.calibration.tensor_loops import TensorLoops, intrinsics_of, schedule_in_turn, uses_in_turn
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import IterKind
from metasched.runtime.compiled import build
from metasched.schedule.tensor import Intrinsic, intrinsics
from tests.support.targets import SAPPHIRE

HERE = ms.Target.detect(threads=1)


@pytest.mark.parametrize("intrinsic", intrinsics().values(), ids=lambda intrinsic: intrinsic.name)
def test_a_use_for_each_output_and_sums_in_registers(intrinsic: Intrinsic) -> None:
    few, many = (
        build(schedule_in_turn(intrinsic, outputs).func, SAPPHIRE).asm.split(".Lfunc_end0")[0] for outputs in (2, 4)
    )
    mnemonic = MNEMONICS[intrinsic.name]
    assert many.count(mnemonic) == 2 * few.count(mnemonic) > 0
    assert many.count("jb\t") == few.count("jb\t") == 2  # over steps, and over passes: what is stored is outside


MNEMONICS = {
    "dot_bf16_avx512": "vdpbf16ps\t",
    "dot_i16_avx512": "vpdpwssd\t",
    "dot_i8i8_avxvnni": "vpdpbusd\t",
    "dot_i8i8_vnni": "vpdpbusd\t",
    "dot_i8u8_avxvnni": "vpdpbusd\t",
    "dot_i8u8_vnni": "vpdpbusd\t",
    "dot_u8i8_avxvnni": "vpdpbusd\t",
    "dot_u8i8_vnni": "vpdpbusd\t",
    "lanes_i8i8_avxvnni": "vpdpbusd\t",
    "lanes_i8i8_vnni": "vpdpbusd\t",
    "lanes_u8i8_avxvnni": "vpdpbusd\t",
    "lanes_u8i8_vnni": "vpdpbusd\t",
    "tile_bf16_amx": "tdpbf16ps\t",
    "tile_i8i8_amx": "tdpbssd\t",
    "tile_u8i8_amx": "tdpbusd\t",
}


@pytest.mark.parametrize("name", intrinsics_of(HERE))
def test_what_is_timed_is_right(name: str) -> None:
    intrinsic = intrinsics()[name]
    program = uses_in_turn(intrinsic, 2)
    (block,) = query.blocks(program.func)
    kernel = ms.compile(program, trace=schedule_in_turn(intrinsic, 2).trace, target=HERE)
    ones = [np.ones(p.shape or (), p.dtype.numpy) for p in kernel.compiled.parameters[:-1]]
    terms = math.prod(as_int(it.extent) or 0 for it in block.iters if it.kind is IterKind.REDUCE)
    np.testing.assert_array_equal(kernel(*ones), terms)


@pytest.fixture(scope="module")
def loops() -> TensorLoops:
    return TensorLoops(CycleCounter(HERE))


@pytest.mark.parametrize("name", intrinsics_of(HERE))
def test_a_use_takes_some_time(loops: TensorLoops, name: str) -> None:
    """It is a difference of two times, which may come to nothing."""
    assert 0 <= loops.throughput(name) < math.inf


def test_a_target_has_the_intrinsics_of_its_features() -> None:
    assert set(intrinsics_of(SAPPHIRE)) == set(intrinsics())
    assert not intrinsics_of(SAPPHIRE.without(sorted(SAPPHIRE.features)))
