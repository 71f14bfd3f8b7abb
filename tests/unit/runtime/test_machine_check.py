"""Code that was compiled for another CPU refuses to be called: it would end the process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from metasched.target import Target

HERE = Target.detect(threads=1)
ADD = "program add(A: f32[64]) -> B: f32[64]:\n    B[i] = A[i] + 1\n"


def far_target() -> Target:
    """This machine with an instruction set that it lacks."""
    lacking = next(name for name in ("avx512fp16", "amx-fp16", "avx10.2") if not HERE.has(name))
    return replace(HERE, features=HERE.features | {lacking})


def test_a_kernel() -> None:
    kernel = ms.compile(ms.parse_program(ADD), target=far_target())
    assert "vaddps" in kernel.asm or kernel.asm
    for call in (lambda: kernel(np.ones(64, np.float32)), lambda: kernel(A=np.ones(64, np.float32))):
        with pytest.raises(
            ms.KernelError, match=r"`add` was compiled for .*, and this machine lacks `.*` of it\n  hint"
        ):
            call()


def test_a_network() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> m (float[64] x) => (float[64] y) { y = Exp(x) }'
    net = ms.load_onnx(onnx.parser.parse_model(text), target=far_target())
    assert not net.runs_here
    with pytest.raises(ms.KernelError, match=r"the network was compiled for .*, and this machine lacks"):
        net(np.ones(64, np.float32))
    with pytest.raises(ms.KernelError, match="this machine lacks"):
        net.profile(np.ones(64, np.float32))
