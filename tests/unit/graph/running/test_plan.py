"""Memory by lifetimes: what is alive at once is apart, and what is not shares."""

from __future__ import annotations

import random
from typing import Any

import pytest

from metasched.graph.running.plan import Lifetime, arena
from metasched.target import CACHE_LINE


def apart(pieces: list[Lifetime], offsets: Any) -> bool:
    return all(
        offsets[a.name] + a.nbytes <= offsets[b.name] or offsets[b.name] + b.nbytes <= offsets[a.name]
        for n, a in enumerate(pieces)
        for b in pieces[:n]
        if a.first <= b.last and b.first <= a.last and a.nbytes and b.nbytes
    )


def test_a_chain_takes_two_values() -> None:
    pieces = [Lifetime(f"v{n}", 1000, n, n + 1) for n in range(9)]
    found = arena(pieces)
    assert found.nbytes == found.bound == 2048
    assert apart(pieces, found.offsets)
    assert str(found) == "arena of 2048 bytes; at most 2048 bytes are alive at once, 1.00 of it"


def test_a_residual_is_kept_while_it_is_needed() -> None:
    pieces = [Lifetime("kept", 64, 0, 3), *(Lifetime(f"v{n}", 64, n, n + 1) for n in range(3))]
    found = arena(pieces)
    assert found.nbytes == found.bound == 192
    assert apart(pieces, found.offsets)


@pytest.mark.parametrize("seed", range(20))
def test_values_of_any_sizes_and_lifetimes_are_apart(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [
        Lifetime(
            f"v{n}", rng.choice([0, 1, 64, 100, 5000, 70000]), first := rng.randrange(30), first + rng.randrange(6)
        )
        for n in range(60)
    ]
    found = arena(pieces)
    assert apart(pieces, found.offsets)
    assert all(offset % CACHE_LINE == 0 for offset in found.offsets.values())
    assert found.bound <= found.nbytes <= 1.3 * found.bound


def test_a_piece_takes_the_smallest_gap_that_holds_it() -> None:
    # The largest come first: where "wide" and "narrow" were, there are gaps for what begins after them.
    early = [Lifetime("wide", 640, 0, 3), Lifetime("narrow", 512, 0, 3)]
    always = [Lifetime("between", 576, 0, 9), Lifetime("behind", 448, 0, 9)]
    found = arena([*early, *always, Lifetime("late", 384, 5, 9)])
    assert found.nbytes == found.bound == 640 + 576 + 512 + 448
    assert found.offsets["late"] == found.offsets["narrow"] == 640 + 576


def test_nothing_takes_nothing() -> None:
    assert arena([]).nbytes == arena([Lifetime("empty", 0, 0, 9)]).nbytes == 0
