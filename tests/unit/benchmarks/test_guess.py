"""What guesses may know, by the names that the sweep takes."""

from __future__ import annotations

import pytest

from benchmarks.guess import KNOWN, known_by
from benchmarks.registry import BENCHMARKS, OptionError, Options
from metasched.operators import load
from metasched.search.guesses.guess import Guess
from tests.support.targets import AVX512


@pytest.fixture(scope="module")
def guesses() -> dict[str, Guess]:
    """By what they know, those of a product for which there are expert traces and sizes nearby."""
    program = load("matmul_nn", M=16, N=64, K=32)
    return {name: known.guess(program, AVX512) for name, known in KNOWN.items()}


def test_without_traces_no_expert_is_replayed(guesses: dict[str, Guess]) -> None:
    assert guesses["traces"].expert is not None
    assert {name: bool(found.expert or found.rivals) for name, found in guesses.items()} == {
        "all": True,
        "traces": True,
        "sizes": False,
        "rules": False,
    }


def test_without_sizes_nothing_is_carried_over(guesses: dict[str, Guess]) -> None:
    assert {name: bool(found.neighbour or found.others) for name, found in guesses.items()} == {
        "all": True,
        "traces": False,
        "sizes": True,
        "rules": False,
    }


def test_what_guesses_know_is_one_of_a_few_names() -> None:
    with pytest.raises(OptionError, match="cannot know `nothing`: there are all, traces, sizes, rules"):
        known_by("nothing")
    with pytest.raises(OptionError, match="cannot know `nothing`"):
        list(BENCHMARKS["guess"].run(Options(known="nothing")))
