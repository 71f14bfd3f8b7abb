"""The benchmark of tensor instructions says what it leaves out."""

from __future__ import annotations

import pytest

import metasched as ms
from benchmarks.registry import Options
from benchmarks.tensor_cores import _packing_times, run
from tests.support.targets import AVX512


def test_what_the_cpu_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ms.Target, "detect", AVX512.with_threads)
    (notes,) = run(Options(shapes=0, torch_python="python"))
    assert notes["notes"] == [
        "bf16 left out: the CPU lacks avx512bf16",
        "u8 x s8 by VNNI left out: the CPU lacks avx512vnni",
        "u8 x s8 by AMX left out: the CPU lacks amx-int8",
    ]


def test_a_line_says_which_side_had_packed_weights() -> None:
    prologues = {"bf16": 2e-3, "f32": None}
    assert _packing_times(prologues, "bf16", "f32") == {"prologue_ms": 2.0, "peer_prologue_ms": None}
