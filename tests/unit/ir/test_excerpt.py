"""Parts of programs as programs of their own."""

from __future__ import annotations

import numpy as np

import metasched as ms
from metasched.ir.excerpt import excerpt

CHAIN = """
program chain(X: f32[6, 5], const A: f32[5, 7], s: f32, const B: f32[7, 4]) -> (Y: f32[6, 4], M: f32[6]):
    wide: U[i, h] = sum[k](X[i, k] * A[k, h])
    clipped: V[i, h] = max(U[i, h] * s, 0)
    narrow: Y[i, j] = sum[h](V[i, h] * B[h, j])
    most: M[i] = max[h](V[i, h])
"""


def test_what_others_compute_is_an_input_and_what_they_read_an_output() -> None:
    program = ms.parse_program(CHAIN)
    first = excerpt(program, ["wide", "clipped"]).func
    assert [b.name for b in first.inputs] == ["X", "A"]
    assert first.order == ("X", "A", "s")
    assert ([b.name for b in first.outputs], [b.name for b in first.temps]) == (["V"], ["U"])
    last = excerpt(program, ["narrow"]).func
    assert [b.name for b in last.inputs] == ["B", "V"]
    assert ([b.name for b in last.outputs], last.temps) == (["Y"], ())
    assert first.buffer("A").const


def test_parts_one_after_the_other_compute_what_the_whole_does() -> None:
    program = ms.parse_program(CHAIN)
    rng = np.random.default_rng(0)
    values: dict[str, object] = {"X": rng.random((6, 5), np.float32), "A": rng.random((5, 7), np.float32)}
    values |= {"s": 0.5, "B": rng.random((7, 4), np.float32)}
    expected = ms.reference(program)(*values.values())
    for blocks in (["wide", "clipped"], ["narrow", "most"]):
        part = excerpt(program, blocks)
        found = ms.reference(part)(*(values[name] for name in part.func.order))
        results = found if isinstance(found, tuple) else (found,)
        values |= {b.name: value for b, value in zip(part.func.outputs, results, strict=True)}
    for name, value in zip(("Y", "M"), expected, strict=True):
        np.testing.assert_allclose(values[name], value, rtol=1e-5)
