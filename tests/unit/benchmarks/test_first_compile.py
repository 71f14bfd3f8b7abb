"""What is compiled in fresh processes: programs with names of their own, and of the library, at two sizes each."""

from __future__ import annotations

import pytest

from benchmarks.first_compile import CASES, program_of


@pytest.mark.parametrize("case", CASES)
def test_each_program_has_another_size(case: str) -> None:
    one, other = program_of(case), program_of(case, 32)
    assert one.definition == other.definition
    assert one.key != other.key
    assert one.work.operations < other.work.operations
