"""What the message about an index outside its buffer says to write instead is right when it is pasted."""

from __future__ import annotations

import re

import pytest

from metasched.errors import LanguageError
from metasched.lang import parse_program

PROGRAM = "program p[N=4](A: f32[6, N], const I: i32[6]) -> B: f32[6, 6]:\n    B[i, j] = {} + f32(I[i])\n"


@pytest.mark.parametrize(
    ("read", "hint"),
    [
        ("A[i, j]", "guard the read: `A[i, j] if j < 4 else 0`"),
        ("A[i, j - 1]", "guard the read: `A[i, j - 1] if j - 1 >= 0 and j - 1 < 4 else 0`"),
        ("A[i, j + 1 if j < 3 else j - 3]", "choose between reads: `A[i, j + 1] if j < 3 else A[i, j - 3]`"),
        ("A[i, (j if i < 3 else i) - 2]", "guard the read: `A[i, (j if i < 3 else i) - 2] if"),
        ("A[i, I[i] if j < 3 else 0]", "choose between reads: `A[i, I[i]] if j < 3 else A[i, 0]`"),
        ("A[i, I[i] + 1]", "guard the read: `A[i, I[i] + 1] if I[i] + 1 >= 0 and I[i] + 1 < 4 else 0`"),
    ],
)
def test_the_hint_is_a_program_that_is_right(read: str, hint: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_program(PROGRAM.format(read))
    assert hint in str(caught.value)
    found = re.search(r"(?:guard the read|choose between reads): `([^`]*)`", str(caught.value))
    assert found is not None
    parse_program(PROGRAM.format(f"({found[1]})"))
