"""What was found for one program, carried over to others: another size, other names, an epilogue, another space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from metasched.cost.core import DEFAULT_CORE
from metasched.knowledge.distill import described
from metasched.knowledge.entries import Entry
from metasched.knowledge.library import NO_KNOWLEDGE, Knowledge
from metasched.lang.instructions import HOLE
from metasched.search.arms import SpaceArms
from metasched.search.carried import Carried, carried_into
from metasched.search.guess import guess
from metasched.search.task import Task
from tests.support.targets import AVX512

TILES = {"i": (HOLE, 1, 2, 6), "j": (HOLE, 2, 1, 32), "k": (HOLE, 8)}
RENAMED = """
program mine(W: f32[60, 90], V: f32[50, 60], bias: f32[90]) -> Z: f32[50, 90]:
    mul: T[row, col] = sum[inner](V[row, inner] * W[inner, col])
    act: Z[row, col] = tanh(T[row, col] + bias[col])
"""
BATCHED = "program of_batch(X: f32[{b}, 8, 8, 16], K: f32[3, 3, 16, 32]) -> Y: f32[{b}, 6, 6, 32]:\n"
BATCHED += "    conv: Y[n, h, w, o] = sum[r, s, c](X[n, h + r, w + s, c] * K[r, s, c, o])\n"


def found_for(program: ms.Program, structure: dict[str, object], numbers: dict[str, object]) -> Entry:
    """An entry as if these decisions had been measured to be best for a program."""
    sketch = ms.space(program, target=AVX512).sketch_near(structure)  # type: ignore[arg-type]
    row = sketch.repair(sketch.sample(np.random.default_rng(0), 1))[0]
    trace = sketch.trace_of(row).with_decisions(numbers)
    entry = described(program, trace, AVX512, 1e-5)
    assert entry is not None
    return entry


PRODUCT = ms.operator("matmul_nn", M=48, N=64, K=64)
TILING = "multi_level_tiling({})/{}"
OWN = {TILING.format("C", name): tile for name, tile in TILES.items()}
ENTRY = found_for(PRODUCT, {TILING.format("C", "read_cache"): "B"}, {**OWN, "unroll(C)/limit": 16})
KNOWN = Knowledge((ENTRY,))


def carried(program: ms.Program, knowledge: Knowledge = KNOWN, rules: object = None) -> Carried:
    space = ms.space(program, rules, target=AVX512)  # type: ignore[arg-type]
    (found,) = carried_into(space, knowledge, AVX512, DEFAULT_CORE)
    assert found.trace.apply_to(program)
    assert space.holds(found.trace)
    return found


def near(entry: Entry, program: ms.Program, block: str, names: dict[str, str]) -> None:
    """What was carried over has the structure, and at most two of the numbers were varied."""
    decisions = carried(program, Knowledge((entry,))).trace.decisions
    assert decisions[TILING.format(block, "read_cache")] != "none"
    same = [decisions[TILING.format(block, names[name])] == tile for name, tile in TILES.items()]
    assert sum(same) >= len(same) - 2


def test_the_same_program_gets_its_own_decisions_back() -> None:
    near(ENTRY, PRODUCT, "C", {"i": "i", "j": "j", "k": "k"})


@pytest.mark.parametrize("sizes", [(96, 128, 64), (50, 70, 66), (480, 640, 1000)])
def test_another_size(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    near(ENTRY, ms.operator("matmul_nn", M=m, N=n, K=k), "C", {"i": "i", "j": "j", "k": "k"})


def test_other_names_and_an_epilogue() -> None:
    near(ENTRY, ms.parse_program(RENAMED), "mul", {"i": "row", "j": "col", "k": "inner"})


def test_numbers_that_do_not_fit_are_repaired() -> None:
    tiny = ms.operator("matmul_nn", M=3, N=5, K=2)
    inner = carried(tiny).trace.decisions[TILING.format("C", "i")]
    assert isinstance(inner, tuple)
    assert all(part is HOLE or (isinstance(part, int) and part <= 3) for part in inner)


def test_another_batch_size() -> None:
    one, many = (ms.parse_program(BATCHED.format(b=b)) for b in (1, 8))
    tile = (HOLE, 1, 1, 16)
    entry = found_for(one, {}, {TILING.format("conv", "o"): tile})
    found = carried(many, Knowledge((entry,)))
    assert found.neighbour.distance == 3
    assert [address for address, _ in found.dropped] in ([], ["parallelize({anchor})/small nests"])


def test_an_option_is_worded_by_what_there_is() -> None:
    """Without an epilogue a tile is cached where with one it is consumed."""
    entry = found_for(PRODUCT, {TILING.format("C", "fusion"): "cache at level 2"}, {})
    found = carried(ms.parse_program(RENAMED), Knowledge((entry,)))
    assert found.trace.decisions[TILING.format("mul", "fusion")] == "consumer at level 2"
    assert (TILING.format("{anchor}", "fusion"), '"consumer at level 2" is the nearest there is') in found.dropped


def test_decisions_without_a_place_are_dropped_and_said() -> None:
    strange = replace(ENTRY, numbers=(*ENTRY.numbers, ("tile({anchor<0})/x", 4), ("tile({anchor})/x", 4)))
    assert carried(PRODUCT, Knowledge((strange,))).dropped == (
        ("tile({anchor<0})/x", "the program has nothing in this place"),
        ("tile({anchor})/x", "the space has no random variable there"),
    )
    no_unrolling = carried(PRODUCT, KNOWN, "cpu,-unroll")
    assert ("unroll({anchor})/limit", "the space has no random variable there") in no_unrolling.dropped
    assert "dropped unroll({anchor})/limit: the space has no random variable there" in str(no_unrolling)


def test_a_number_of_another_kind_is_drawn_instead() -> None:
    numbers = tuple((address, (HOLE, 4) if "$0" in address else value) for address, value in ENTRY.numbers)
    assert carried(PRODUCT, Knowledge((replace(ENTRY, numbers=numbers),))).trace.holes == ()


def test_given_decisions_stay_given() -> None:
    address = TILING.format("C", "i")
    space = ms.condition(ms.space(PRODUCT, target=AVX512), {address: [None, 1, 1, 3]})
    assert isinstance(space, ms.Space)
    (found,) = carried_into(space, KNOWN, AVX512, DEFAULT_CORE)
    assert found.trace.decisions[address] == (HOLE, 1, 1, 3)


def test_other_kinds_know_nothing() -> None:
    for program in (ms.operator("softmax", M=8, N=8), ms.operator("matmul_nn", M=8, N=8, K=8, T="f64", ACC="f64")):
        assert carried_into(ms.space(program, target=AVX512), KNOWN, AVX512, DEFAULT_CORE) == []
    assert carried_into(ms.space(PRODUCT, target=AVX512), NO_KNOWLEDGE, AVX512, DEFAULT_CORE) == []


def test_the_nearest_are_ranked_by_what_is_expected_of_them_here() -> None:
    slow = replace(ENTRY, extents=(48, 64, 60), numbers=tuple((a, _ones(v)) for a, v in ENTRY.numbers))
    found = carried_into(ms.space(PRODUCT, target=AVX512), Knowledge((slow, ENTRY)), AVX512, DEFAULT_CORE)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found[0].neighbour.entry == ENTRY


def _ones(value: object) -> object:
    return tuple(part if part is HOLE else 1 for part in value) if isinstance(value, tuple) else value


def test_what_is_carried_over_is_an_arm_to_search_from() -> None:
    space = ms.space(PRODUCT, target=AVX512, max_sketches=1)
    entry = found_for(PRODUCT, {TILING.format("C", "fusion"): "cache at level 2"}, {})
    arms = SpaceArms(space, AVX512, DEFAULT_CORE, Knowledge((entry,)))
    assert len(arms.arms) == len(SpaceArms(space, AVX512).arms) + 1
    candidate = arms.locate(str(arms.carried[0].trace))
    assert candidate is not None
    assert arms.trace(candidate) == str(arms.carried[0].trace)


# --- guesses


def test_the_guess_is_what_was_found_where_nobody_knows_better() -> None:
    program = ms.parse_program(RENAMED)
    found = guess(program, AVX512, "cpu", knowledge=KNOWN)
    assert found.neighbour is not None
    assert str(found).startswith("a guess: what was found for 48x64x64 (16 lanes, 2 threads) of y[s0, s1] sum=")
    assert guess(program, AVX512, "cpu", knowledge="none").neighbour is None


def test_the_guess_is_no_worse_in_estimate_than_the_best_known_without() -> None:
    for program in (PRODUCT, ms.operator("dense_bias_relu", M=64, N=96, K=80)):
        without, known = (guess(program, AVX512, knowledge=k) for k in ("none", KNOWN))
        assert without.expert is not None
        assert known.expected is not None
        assert without.expected is not None
        bad = Knowledge((replace(ENTRY, numbers=tuple((a, _ones(v)) for a, v in ENTRY.numbers)),))
        for other in (known, guess(program, AVX512, knowledge=bad)):
            assert other.trace == without.trace or other.neighbour is not None
            assert _log_seconds(program, other.trace) <= _log_seconds(program, without.trace)


def _log_seconds(program: ms.Program, trace: ms.Trace) -> float:
    from metasched.cost.features import features_of
    from metasched.cost.trained import shipped

    features = features_of(trace.apply_to(program).func, AVX512, DEFAULT_CORE)
    return float(shipped().log_seconds(features[None])[0])


def test_a_task_measures_the_guess_first_and_then_its_neighbours() -> None:
    other = replace(ENTRY, extents=(48, 64, 60), structure=())
    task = Task(ms.parse_program(RENAMED), "cpu", AVX512, knowledge=Knowledge((ENTRY, other)))
    guesses = task.guesses()
    assert guesses.own == str(task.arms.carried[0].trace)
    assert guesses.neighbours == tuple(str(one.trace) for one in task.arms.carried[1:])
    assert guesses.with_roles()[0][0] == guesses.own
    assert Task(ms.parse_program(RENAMED), "cpu", AVX512, knowledge="none").guesses().neighbours == ()


def test_knowledge_that_is_given_makes_another_search() -> None:
    texts = {Task(PRODUCT, "cpu", AVX512, knowledge=k).fingerprint for k in (None, "none", KNOWN)}
    assert len(texts) == 3
