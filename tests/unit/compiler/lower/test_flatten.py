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
