"""One flat index for each access."""

from __future__ import annotations

import metasched as ms
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from tests.support.targets import AVX512

ONE_IMAGE = """
program shifted[H=6, W=5](X: f32[1, H, W]) -> Y: f32[1, H, W]:
    twice: T[n, h, w] = X[n, h, w] * 2
    Y[n, h, w] = T[n, h, w] + 1
"""


def test_a_dimension_of_one_element_has_no_part_in_an_index() -> None:
    """Whatever the loops over it have been fused to."""
    sch = ms.Schedule(ms.parse_program(ONE_IMAGE))
    last = sch.get_block("Y")
    n, h, _ = sch.get_loops(last)
    sch.compute_at(sch.get_block("twice"), h)
    sch.parallel(sch.fuse(n, h))
    text = print_kernel(lower(sch.func, AVX512))
    assert "Y[" in text
    assert "//" not in text


def test_what_data_says_is_held_to_its_array_in_its_own_type_and_only_where_it_may_be_elsewhere() -> None:
    text = """
program tables[N=6](X: u8[N], I: i32[N], T: f32[256], S: f32[9]) -> Y: f32[N]:
    Y[i] = T[X[i]] + S[I[i]] + S[clamp(I[i], 2, 7)]
"""
    code = print_kernel(lower(ms.Schedule(ms.parse_program(text)).func, AVX512))
    assert "T[i64(X[i])] + S[i64(max(min(I[i], 8), 0))] + S[i64(min(max(I[i], 2), 7))]" in code
