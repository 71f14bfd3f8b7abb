"""Temporaries of the reference share memory where no nest needs both."""

from __future__ import annotations

import numpy as np

from metasched.lang import parse_program
from metasched.reference.compiled_loops import run_compiled
from metasched.reference.execution import reference
from metasched.reference.memory import compact_state, lifetimes, places
from metasched.reference.state import outputs

CHAIN = parse_program("""program chain[N=64](X: f32[N]) -> E: f32[N]:
    A[i] = X[i] + 1
    B[i] = A[i] * 2
    C[i] = B[i] + 1
    D[i] = C[i] * 2
    E[i] = D[i] + A[i]
""")


def test_temporaries_are_needed_from_their_first_nest_to_their_last() -> None:
    assert lifetimes(CHAIN.func) == {"A": (0, 4), "B": (1, 2), "C": (2, 3), "D": (3, 4)}


def test_what_no_nest_needs_together_shares_memory() -> None:
    placed = places(CHAIN.func)
    assert placed["B"].begin == placed["D"].begin
    assert len({placed[name].begin for name in "ABC"}) == 3
    assert max(place.end for place in placed.values()) == 3 * (64 * 4 + 64)


def test_a_chain_in_shared_memory_gives_what_it_gives_in_its_own() -> None:
    x = np.arange(64, dtype=np.float32)
    state = compact_state(CHAIN.func, {"X": x}, {})
    for _ in range(2):  # what a run leaves is not taken for written by the next
        run_compiled(CHAIN.func, state)
    assert np.array_equal(outputs(CHAIN.func, state)[0], reference(CHAIN)(x))
