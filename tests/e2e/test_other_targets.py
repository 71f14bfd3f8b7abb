"""Guesses for CPUs with wider vectors and with tensor instructions, whatever this CPU is: they compile, and give the
reference's results where what this CPU lacks is emulated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.measure.checking.arithmetic import arithmetic_of
from metasched.measure.checking.check import LARGE_BYTE, mismatch, prepare
from metasched.measure.checking.inputs import given_inputs
from metasched.runtime.compiled import compile_func
from tests.support import emulation
from tests.support.onnx_models import model, node, value
from tests.support.targets import ALDER, AVX512, SAPPHIRE

BF16 = {"T": "bf16", "ACC": "f32"}
BYTES = {"T": "u8", "U": "i8", "ACC": "i32"}
VNNI = SAPPHIRE.without({"amx-tile", "avx512bf16"})


@pytest.mark.parametrize(
    ("operator", "params", "target", "instruction"),
    [
        ("matmul_nt", {"M": 4, "N": 96, "K": 128}, AVX512, None),
        ("conv2d_transpose_nhwc", {"H": 5, "W": 5, "CI": 16, "CO": 17, "R": 3, "OPAD": 1}, AVX512, None),
        ("conv2d_nchw", {"H": 15, "W": 15, "CI": 16, "CO": 24, "S": 2, "R": 1, "P": 0}, AVX512, None),
        ("softmax", {"M": 24, "N": 96}, AVX512, None),
        ("matmul_nn", {"M": 64, "N": 96, "K": 128, **BYTES}, VNNI, None),
        ("matmul_nn", {"M": 64, "N": 96, "K": 128, **BYTES}, ALDER, None),
        ("matmul_nn", {"M": 64, "N": 96, "K": 128, **BF16}, SAPPHIRE, "tdpbf16ps"),
    ],
)
def test_a_guess_for_another_cpu(
    operator: str, params: dict[str, Any], target: ms.Target, instruction: str | None
) -> None:
    program = operators.load(operator, **params)
    trace = ms.guess(program, target=target)
    func = trace.apply_to(program).func
    assert compile_func(func, target).code.data
    by = arithmetic_of(str(trace)).computation_of(program)
    cases = prepare(program.func, given_inputs(program.func, None, seed=0), seed=0, by=by)
    for case in (cases.integers, cases.random):
        results = [np.empty(e.shape, dtype) for e, (_, dtype) in zip(case.expected, cases.outputs, strict=True)]
        for result in results:
            result.view(np.uint8).fill(LARGE_BYTE)
        done = emulation.run(func, target, *case.inputs, *results).done
        assert instruction is None or done[instruction]
        for result, expected, tolerance in zip(results, case.expected, case.tolerance, strict=True):
            assert mismatch(result, expected, tolerance) is None


def test_a_quantised_layer_of_a_network_for_a_cpu_with_vnni_and_without_avx_512() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (32, 24, 3, 3)).astype(np.int8)
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(128), "w": weights, "ws": np.float32(0.01), "wz": np.int8(0),
        "ys": np.float32(0.5), "yz": np.uint8(128),
    }  # fmt: skip
    layer = node("QLinearConv", "X xs xz w ws wz ys yz", "Y", pads=[1] * 4)
    image = value("X", rng.integers(0, 256, (1, 24, 14, 14)).astype(np.uint8))
    net = ms.load_onnx(model([layer], [image], ["Y"], constants), target=ALDER)
    traces = [str(ms.guess(row.task.program, target=ALDER)) for row in net.tasks()]
    assert any('"dot_u8i8_avxvnni")\n' in text for text in traces)  # it is used, and not just offered
