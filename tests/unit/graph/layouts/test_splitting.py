"""Stages with several indices along what was one dimension."""

from __future__ import annotations

from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.layouts.splitting import Split, split_dimension, split_inputs
from metasched.lang import parse_program


def form(text: str) -> Stages:
    found = stages_of(parse_program(text))
    assert found is not None
    return found


def last_line(stages: Stages) -> str:
    return str(program_of(stages, "p")).splitlines()[-1].strip()


PRODUCT = """program p(A: f32[6, 4], B: f32[6, 4, 5]) -> Y: f32[6, 5]:
    Y[h, j] = sum[k < 4](A[h, k] * B[h, k, j])
"""


def test_a_dimension_is_several_wherever_an_index_goes_along_it() -> None:
    made = split_dimension(form(PRODUCT), "B", Split(0, (2, 3)))
    assert made is not None
    assert last_line(made.stages) == "Y[h_0, h_1, j] = sum[k < 4](A[h_0, h_1, k] * B[h_0, h_1, k, j])"
    assert made.splits.keys() == {"A", "B", "Y"}
    assert made.stages.types["A"].shape == (2, 3, 4)


def test_other_uses_of_the_index_are_the_place_that_the_parts_count() -> None:
    text = "program p(A: f32[6], B: f32[7], C: f32[2]) -> Y: f32[6]:\n    Y[h] = A[h] + B[h + 1] * C[h // 3]\n"
    made = split_dimension(form(text), "A", Split(0, (2, 3)))
    assert made is not None
    assert last_line(made.stages) == "Y[h_0, h_1] = A[h_0, h_1] + B[3 * h_0 + h_1 + 1] * C[h_0]"


def test_a_dimension_that_is_reduced_or_read_elsewhere_stays() -> None:
    assert split_dimension(form(PRODUCT), "A", Split(1, (2, 2))) is None
    text = "program p(A: f32[6], B: f32[6, 6]) -> Y: f32[6]:\n    Y[h] = A[h] + A[5 - h]\n"
    assert split_dimension(form(text.replace(", B: f32[6, 6]", "")), "A", Split(0, (2, 3))) is None


def test_a_tensor_with_two_dimensions_along_one_index_stays() -> None:
    text = "program p(A: f32[6], B: f32[6, 6]) -> Y: f32[6]:\n    Y[h] = A[h] + B[h, h]\n"
    assert split_dimension(form(text), "A", Split(0, (2, 3))) is None


def test_inputs_whose_places_two_indices_count_have_a_dimension_for_each() -> None:
    text = "program p(A: f32[4, 6]) -> Y: f32[2, 4, 3]:\n    Y[g, i, h] = A[i, 3 * g + h]\n"
    assert last_line(split_inputs(form(text))) == "Y[g, i, h] = A[i, g, h]"


def test_places_in_windows_and_in_parts_of_a_dimension_stay() -> None:
    window = form("program p(A: f32[6]) -> Y: f32[3]:\n    Y[i] = max[r < 2](A[2 * i + r])\n")
    part = form("program p(A: f32[9]) -> Y: f32[2, 3]:\n    Y[g, h] = A[3 * g + h]\n")
    assert split_inputs(window) is window
    assert split_inputs(part) is part
