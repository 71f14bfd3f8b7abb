"""Dimensions that are always used together, and those of one element."""

from __future__ import annotations

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import stages_of
from metasched.graph.layouts.joining import join_dimensions
from metasched.lang import parse_program

OF_ONE_PIXEL = """
program p(A: f32[1, 16, 1, 1], const B: f32[16, 24], const C: f32[24]) -> Y: f32[1, 24]:
    T: f32[1, 1, 1, 24]
    T[n, h, w, o] = sum[c](A[n, c, h, w] * B[c, o])
    Y[n, o] = max(T[n, 0, 0, o] + C[o], 0)
"""
OF_THE_WHOLE_IMAGE = """
program p(A: f32[1, 3, 5, 16], const B: f32[3, 5, 16, 24], const C: f32[24]) -> Y: f32[1, 24]:
    T: f32[1, 1, 1, 24]
    T[n, h, w, o] = sum[r < 3, s < 5, c < 16](A[n, h + r, w + s, c] * B[r, s, c, o])
    Y[n, o] = max(T[n, 0, 0, o] + C[o], 0)
"""
OF_NORMALISED_ROWS = """
program p(A: f32[1, 4, 1, 16]) -> Y: f32[1, 4, 1, 16]:
    T: f32[1, 4, 1, 1]
    T[n, h, w, o] = sum[c](A[n, h, w, c])
    Y[n, h, w, o] = A[n, h, w, o] * T[n, h, w, 0]
"""
OF_WINDOWS = """
program p(A: f32[2, 1, 8]) -> (T: f32[2, 1, 6], Y: i64[2, 1, 6]):
    P: i64[2, 1, 6]
    T[n, c, i], P[n, c, i] = argmax[r < 3](A[n, c, i + r])
    Y[n, c, i] = P[n, c, i] + i
"""


def test_a_convolution_of_an_image_of_one_pixel_is_a_product_of_one_row() -> None:
    form = stages_of(parse_program(OF_ONE_PIXEL))
    assert form is not None
    made = join_dimensions(form)
    assert made.types["T"].shape == (1, 24)
    assert made.types["A"].shape == (1, 16)
    assert [len(read.indices) for read in reads(made.stages[0].value)] == [2, 2]


def test_a_convolution_whose_window_is_the_whole_image_is_a_product_of_one_row() -> None:
    form = stages_of(parse_program(OF_THE_WHOLE_IMAGE))
    assert form is not None
    made = join_dimensions(form)
    assert (made.types["A"].shape, made.types["B"].shape) == ((1, 240), (240, 24))
    assert made.types["T"].shape == (1, 24)


def test_rows_that_are_normalised_keep_a_dimension_for_their_sums() -> None:
    form = stages_of(parse_program(OF_NORMALISED_ROWS))
    assert form is not None
    assert join_dimensions(form).types["T"].shape == (4, 1)


def test_a_largest_element_and_its_place_keep_the_same_dimensions() -> None:
    form = stages_of(parse_program(OF_WINDOWS))
    assert form is not None
    made = join_dimensions(form)
    assert made.types["T"].shape == made.types["P"].shape == (2, 6)
