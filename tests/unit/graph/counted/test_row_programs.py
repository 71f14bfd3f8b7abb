"""Programs that go by rows, for a block of them."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.graph.counted.row_programs import RowProgram, row_program
from metasched.graph.fusion.stages import program_of, stages_of
from metasched.lang import parse_program
from metasched.reference.execution import reference

ROOM = 6


def by_rows(text: str, axis: int = 0) -> RowProgram | None:
    form = stages_of(parse_program(text))
    assert form is not None
    return row_program(form, dict.fromkeys(form.outputs, axis), ROOM)


@pytest.mark.parametrize(
    ("signature", "stages", "axis", "rows"),
    [
        ("A: f32[6, 3], B: f32[3, 2]) -> Y: f32[6, 2]", ["Y[i, j] = sum[k < 3](A[i, k] * B[k, j])"], 0, "AY"),
        ("A: f32[3, 6]) -> Y: f32[2, 6]", ["Y[j, i] = A[j, i] + f32(i)"], 1, "AY"),
        ("A: f32[6]) -> Y: f32[6, 6]", ["Y[i, j] = A[i] + A[j]"], 0, "Y"),
        ("A: f32[6, 3]) -> Y: f32[6]", ["T: f32[6]", "T[i] = sum[k < 3](A[i, k])", "Y[i] = T[i] * f32(i)"], 0, "ATY"),
        ("A: f32[6], I: i64[6]) -> Y: f32[6]", ["Y[i] = A[min(max(I[i] + i, 0), 5)]"], 0, "IY"),
    ],
)
def test_blocks_are_parts_of_all_rows(signature: str, stages: list[str], axis: int, rows: str) -> None:
    text = "\n    ".join([f"program rows({signature}:", *stages]) + "\n"
    found = by_rows(text, axis)
    assert found is not None
    assert set(found.rows) == set(rows)
    given = [np.random.default_rng(0).integers(0, 3, found.stages.types[n].shape) for n in found.stages.inputs]
    all_ = dict(zip(found.stages.inputs, given, strict=True))
    arrays = {name: array.astype(found.stages.types[name].dtype.numpy) for name, array in all_.items()}
    whole = reference(parse_program(text))(*arrays.values())
    made = []
    for turn in range(2):
        form = found.block_stages(frozenset(), 3)
        arguments = [
            np.int64(turn) if name not in arrays
            else arrays[name].take(range(3 * turn, 3 * turn + 3), found.rows[name]) if name in found.rows
            else arrays[name]
            for name in form.inputs
        ]  # fmt: skip
        made.append(reference(program_of(form, "block"))(*arguments))
    np.testing.assert_array_equal(np.concatenate(made, axis), whole)


@pytest.mark.parametrize(
    "text",
    [
        "program sums(A: f32[6]) -> Y: f32[6]:\n    T: f32[1]\n    T[z] = sum[k < 6](A[k])\n    Y[i] = A[i] / T[0]\n",
        "program turned(A: f32[6]) -> Y: f32[6]:\n    T: f32[6]\n    T[i] = A[i] + 1.0\n    Y[i] = T[5 - i]\n",
        "program longer(A: f32[6]) -> Y: f32[12]:\n    Y[i] = A[i // 2]\n",
    ],
)
def test_what_goes_by_no_rows(text: str) -> None:
    assert by_rows(text) is None
