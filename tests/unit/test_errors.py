"""What messages are made of."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.errors import a_or_an

ADD = ms.parse_program("program add(A: f32[8]) -> B: f32[8]: \n    B[i] = A[i] + 1\n")


@pytest.mark.parametrize(
    "said", ["an int", "an object", "an ndarray", "a str", "a uint8", "a NoneType", "an Exception"]
)
def test_a_noun_has_the_article_that_it_is_spoken_with(said: str) -> None:
    assert a_or_an(said.split()[1]) == said


def test_one_argument_is_no_arguments() -> None:
    with pytest.raises(ms.KernelError, match=r"^add takes 1 argument \(A\), not 0$"):
        ms.reference(ADD)()
    with pytest.raises(ms.KernelError, match=r"^the kernel takes 1 argument \(`A`\), not 2$"):
        ms.kernel("B[i] = A[i] + 1")(np.ones(8), np.ones(8))


def test_the_wrong_types_are_named_with_their_articles() -> None:
    with pytest.raises(ms.DatabaseError, match="`3` is an int, not the URL"):
        ms.records(3)  # type: ignore[arg-type]
    with pytest.raises(ms.MetaschedError, match="`program` is an int, not a Program"):
        ms.guess(3)  # type: ignore[arg-type]
