"""Products with weights of a few bits are timed, and are what the node says."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from benchmarks import few_bits
from benchmarks.registry import Options


def test_rows_in_bytes_come_near_those_in_f32() -> None:
    weights = few_bits.Weights(64, 32, 4)
    x = np.random.default_rng(0).standard_normal((3, 64), np.float32)
    exact, rounded = (ms.load_onnx(weights.model(accuracy), rows=3)(x) for accuracy in (0, 4))
    np.testing.assert_allclose(rounded, exact, atol=0.02 * float(np.abs(exact).max()))


def test_a_line_says_what_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_bits, "WEIGHTS", (few_bits.Weights(64, 32, 4),))
    monkeypatch.setattr(few_bits, "_CALLS", 2)
    lines = list(few_bits.run(Options(quick=True)))
    assert [line["case"] for line in lines] == [f"1 x 64 x 32, 4 bits, rows in {what}" for what in ("f32", "bytes")]
    assert all("no peer" in str(line["notes"]) for line in lines)
