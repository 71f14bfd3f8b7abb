"""What was found for one program, carried over to others: another size, other names, an epilogue, another space."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np
import pytest

import metasched as ms
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.features import features_of
from metasched.cost.learning.trained import read_shipped_model
from metasched.knowledge.distill import describe_trace
from metasched.knowledge.entries import Entry
from metasched.knowledge.library import NO_KNOWLEDGE, Knowledge, shipped
from metasched.lang.instructions import HOLE, Decision, Ref
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.arms.transferred import (
    COST_OF_DISTANCE,
    GAIN_OVER_NEAR,
    NEAR_DISTANCE,
    TransferredDecisions,
    TransferResult,
    transferred_into,
)
from metasched.search.guesses.guess import guess
from metasched.search.task import Task
from tests.support.targets import ALDER, AVX512, SAPPHIRE

TILES = {"i": (HOLE, 6), "j": (HOLE, 32), "k": (HOLE, 8)}
RENAMED = """
program mine(W: f32[60, 90], V: f32[50, 60], bias: f32[90]) -> Z: f32[50, 90]:
    mul: T[row, col] = sum[inner](V[row, inner] * W[inner, col])
    act: Z[row, col] = tanh(T[row, col] + bias[col])
"""
BATCHED = "program of_batch(X: f32[{b}, 8, 8, 16], K: f32[3, 3, 16, 32]) -> Y: f32[{b}, 6, 6, 32]:\n"
BATCHED += "    conv: Y[n, h, w, o] = sum[r, s, c](X[n, h + r, w + s, c] * K[r, s, c, o])\n"


@ms.rule
def tiles(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Tile a reduction, with a copy of an operand or not, and a decision that is worded by what follows."""
    info = sch.describe(block)
    if not info.reduces:
        return ms.skip("it is no reduction")
    loops = sch.get_loops(block)
    what = "consumer" if sch.get_consumers(block) else "cache"
    sch.choose("fusion", ["none", f"{what} at level 1", f"{what} at level 2"])
    copied = sch.choose("copy", ["none", *dict.fromkeys(read.buffer for read in info.reads)])
    for loop in loops:
        sch.split(loop, sch.sample_tile(loop, parts=2))
    if copied != "none":
        sch.cache_read(block, copied)
    return None


@ms.rule
def unrolled(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Unroll more or less of a block."""
    sch.annotate(block, "unroll_limit", sch.sample_categorical([0, 16, 64], name="limit"))


RULES = [tiles, unrolled]


def space_of(program: ms.Program) -> ms.Space:
    return ms.space(program, RULES, target=AVX512)


def found_for(program: ms.Program, structure: dict[str, object], numbers: dict[str, object]) -> Entry:
    """An entry as if these decisions had been measured to be best for a program."""
    sketch = space_of(program).sketch_near(structure)  # type: ignore[arg-type]
    row = sketch.repair(sketch.sample(np.random.default_rng(0), 1))[0]
    entry = describe_trace(program, sketch.trace_of(row).with_decisions(numbers), AVX512, 1e-5)
    assert entry is not None
    return entry


PRODUCT = ms.operator("matmul_nn", M=48, N=64, K=64)
OWN = {f"tiles(C)/{name}": tile for name, tile in TILES.items()}
ENTRY = found_for(PRODUCT, {"tiles(C)/copy": "B"}, {**OWN, "unrolled(C)/limit": 16})
KNOWN = Knowledge((ENTRY,))


def transferred(space: ms.Space, knowledge: Knowledge = KNOWN) -> TransferredDecisions:
    """What came of one entry, with nothing tried beside its own decisions."""
    every = transferred_into(space, knowledge, AVX512, DEFAULT_CORE)
    (found,) = (one for one in every if not any("is tried here" in why for _, why in one.dropped))
    found.trace.apply_to(space.program)
    assert space.holds(found.trace)
    return found


def near(program: ms.Program, block: str, names: dict[str, str], operand: str) -> None:
    """What was carried over has the structure, and at most two of the numbers were varied."""
    decisions = transferred(space_of(program)).trace.decisions
    assert decisions[f"tiles({block})/copy"] == operand
    assert sum(decisions[f"tiles({block})/{names[name]}"] == tile for name, tile in TILES.items()) >= len(TILES) - 2


def test_the_same_program_gets_its_own_decisions_back() -> None:
    near(PRODUCT, "C", {"i": "i", "j": "j", "k": "k"}, "B")


@pytest.mark.parametrize("sizes", [(96, 128, 64), (50, 70, 66), (480, 640, 1000)])
def test_another_size(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    near(ms.operator("matmul_nn", M=m, N=n, K=k), "C", {"i": "i", "j": "j", "k": "k"}, "B")


def test_other_names_and_an_epilogue() -> None:
    near(ms.parse_program(RENAMED), "mul", {"i": "row", "j": "col", "k": "inner"}, "W")


def test_numbers_that_do_not_fit_are_repaired() -> None:
    inner = transferred(space_of(ms.operator("matmul_nn", M=3, N=5, K=2))).trace.decisions["tiles(C)/i"]
    assert isinstance(inner, tuple)
    assert all(part is HOLE or (isinstance(part, int) and part <= 3) for part in inner)


def test_another_batch_size() -> None:
    one, many = (ms.parse_program(BATCHED.format(b=b)) for b in (1, 8))
    entry = found_for(one, {"tiles(conv)/copy": "K"}, {"tiles(conv)/o": (HOLE, 16)})
    found = transferred(space_of(many), Knowledge((entry,)))
    assert found.neighbour.distance == 3
    assert found.is_whole
    assert found.trace.decisions["tiles(conv)/copy"] == "K"


def test_an_option_is_worded_by_what_there_is() -> None:
    """Without an epilogue a tile is cached where with one it is consumed."""
    entry = found_for(PRODUCT, {"tiles(C)/fusion": "cache at level 2"}, {})
    found = transferred(space_of(ms.parse_program(RENAMED)), Knowledge((entry,)))
    assert found.trace.decisions["tiles(mul)/fusion"] == "consumer at level 2"
    assert found.dropped == (("tiles({anchor})/fusion", '"consumer at level 2" is the nearest there is'),)


def fusions(program: ms.Program, entry: Entry) -> list[str]:
    found = transferred_into(space_of(program), Knowledge((entry, *OF_COPIES)), AVX512, DEFAULT_CORE)
    assert all(one.trace.apply_to(program) for one in found)
    assert all(one.sketch.structure["tiles(mul)/copy"] == "W" for one in found)
    return sorted(str(one.sketch.structure["tiles(mul)/fusion"]) for one in found)


# Of another kind: that something may be copied or not is known of programs that end with the anchor.
OF_COPIES = [
    replace(ENTRY, kind="another", structure=(("tiles({anchor})/copy", option),)) for option in ("none", "{anchor#0}")
]


def test_what_only_programs_decide_in_which_something_follows_the_anchor_is_tried_as_well() -> None:
    renamed = ms.parse_program(RENAMED)
    assert fusions(renamed, ENTRY) == ["consumer at level 1", "consumer at level 2", "none"]
    followed = replace(ENTRY, numbers=(*ENTRY.numbers, ("unrolled({writer})/limit", 16)))
    assert fusions(renamed, followed) == ["none"]  # its program had something that follows, and this was better
    assert len(transferred_into(space_of(PRODUCT), KNOWN, AVX512, DEFAULT_CORE)) == 1  # nothing follows here


def test_what_is_tried_as_well_has_the_numbers_of_the_best() -> None:
    space = space_of(ms.parse_program(RENAMED))
    known = Knowledge((ENTRY, *OF_COPIES))
    own = transferred(space, known)
    shared = own.sketch.decisions(own.row)
    every = transferred_into(space, known, AVX512, DEFAULT_CORE)
    assert all({**one.sketch.decisions(one.row), **shared} == one.sketch.decisions(one.row) for one in every)
    assert [one.score for one in every] == sorted((one.score for one in every), reverse=True)
    assert sum("is tried here" in str(one) for one in every) == 2


def test_decisions_without_a_place_are_dropped_and_said() -> None:
    strange = replace(ENTRY, numbers=(*ENTRY.numbers, ("tile({anchor<0})/x", 4), ("tile({anchor})/x", 4)))
    assert transferred(space_of(PRODUCT), Knowledge((strange,))).dropped == (
        ("tile({anchor<0})/x", "the program has nothing in this place"),
        ("tile({anchor})/x", "the space has no random variable there"),
    )
    less = transferred(ms.space(PRODUCT, [tiles], target=AVX512))
    assert ("unrolled({anchor})/limit", "the space has no random variable there") in less.dropped
    assert "dropped unrolled({anchor})/limit: the space has no random variable there" in str(less)


def test_structure_that_the_neighbour_did_not_decide_leaves_it_less_than_whole() -> None:
    assert transferred(space_of(PRODUCT)).is_whole
    half = replace(ENTRY, structure=ENTRY.structure[:1])
    assert not transferred(space_of(PRODUCT), Knowledge((half,))).is_whole


@ms.rule
def placed(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute what follows a reduction at a sampled place."""
    if sch.describe(block).reduces:
        return ms.skip("it is a reduction")
    sch.reverse_compute_at(block, sch.sample_compute_location(block))
    return None


def test_a_block_that_stays_where_it_is_leaves_a_neighbour_whole() -> None:
    program = ms.parse_program(RENAMED)
    found = transferred(ms.space(program, [tiles, placed, unrolled], target=AVX512))
    assert found.sketch.structure["placed(act)/act"] == Ref("root")
    assert found.is_whole


@ms.rule
def settled(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """A choice of one option."""
    sch.choose("way", ["only"])


def test_a_choice_of_one_option_leaves_a_neighbour_whole() -> None:
    found = transferred(ms.space(PRODUCT, [tiles, settled, unrolled], target=AVX512))
    assert found.sketch.structure["settled(C)/way"] == "only"
    assert found.is_whole


def test_numbers_that_do_not_fit_are_varied() -> None:
    """A tile of one term becomes longer; numbers of a CPU with other vectors are varied at least as often."""
    program = ms.operator("matmul_nn", M=64, N=512, K=256)
    numbers = {"tiles(C)/i": (HOLE, 1), "tiles(C)/j": (HOLE, 8), "tiles(C)/k": (HOLE, 1), "unrolled(C)/limit": 0}
    entry = replace(found_for(program, {"tiles(C)/copy": "none"}, numbers), extents=(16, 512, 64))
    elsewhere = replace(entry, cpu=replace(entry.cpu, lanes=8))
    own = transferred(space_of(program), Knowledge((entry,)))
    other = transferred(space_of(program), Knowledge((elsewhere,)))
    assert own.row[2] > 1
    assert other.score >= own.score


def test_a_number_of_another_kind_is_drawn_instead() -> None:
    numbers = tuple((address, (HOLE, 4, 4) if "$0" in address else value) for address, value in ENTRY.numbers)
    found = transferred(space_of(PRODUCT), Knowledge((replace(ENTRY, numbers=numbers),)))
    assert found.trace.holes == ()


def test_given_decisions_stay_given() -> None:
    space = ms.condition(space_of(PRODUCT), {"tiles(C)/i": [None, 3]})
    assert isinstance(space, ms.Space)
    assert transferred(space).trace.decisions["tiles(C)/i"] == (HOLE, 3)


def test_other_kinds_know_nothing() -> None:
    for program in (ms.operator("softmax", M=8, N=8), ms.operator("matmul_nn", M=8, N=8, K=8, T="f64", ACC="f64")):
        assert transferred_into(space_of(program), KNOWN, AVX512, DEFAULT_CORE) == TransferResult()
    assert transferred_into(space_of(PRODUCT), NO_KNOWLEDGE, AVX512, DEFAULT_CORE) == TransferResult()


def test_the_nearest_are_ranked_by_what_is_expected_of_them_here() -> None:
    others = [replace(ENTRY, extents=(48, 64, n), numbers=_with(n)) for n in (1, 2, 4, 60)]
    found = transferred_into(space_of(PRODUCT), Knowledge((*others, ENTRY)), AVX512, DEFAULT_CORE)
    assert len(found) > 1
    expected = list(map(worth, found))
    assert expected == sorted(expected, reverse=True)
    assert len({str(one.trace) for one in found}) == len(found)


def worth(one: TransferredDecisions) -> float:
    """What a candidate is ranked by: what is expected of it, and how near it was measured."""
    further = 0.0 if one.is_near else log2(GAIN_OVER_NEAR)
    return one.score - further - COST_OF_DISTANCE * min(one.neighbour.distance, NEAR_DISTANCE)


def test_what_several_neighbours_agree_on_is_ranked_as_the_nearest_of_them_is() -> None:
    far = replace(ENTRY, extents=(480, 640, 640))
    between = replace(ENTRY, extents=(48, 64, 96), numbers=_with(6))
    found = transferred_into(space_of(PRODUCT), Knowledge((ENTRY, far, between)), AVX512, DEFAULT_CORE)
    expected = list(map(worth, found))
    assert expected == sorted(expected, reverse=True)
    assert found[0].neighbour.entry == ENTRY


def test_numbers_stay_as_they_were_measured_near() -> None:
    """The estimate expects larger tiles to take less than .9 of the time; they take 1.7 of it."""
    program = ms.operator("depthwise_conv2d_nhwc", H=112, W=112, C=16, R=3, S=1, P=1)
    (known,) = (e for e in shipped().entries if e.extents == (1, 112, 112, 32, 3, 3) and _leaves_columns_apart(e))
    every = transferred_into(ms.space(program, target=AVX512), Knowledge((known,)), AVX512, DEFAULT_CORE)
    assert list(every[0].sketch.decisions(every[0].row).values()) == [taken for _, taken in known.numbers]


def _leaves_columns_apart(entry: Entry) -> bool:
    return entry.cpu.lanes == 16 and ("borders({anchor})/borders", "columns apart") in entry.structure


def _with(size: int) -> tuple[tuple[str, Decision], ...]:
    """Numbers of the entry, with tiles of one size."""
    return tuple((a, (HOLE, size) if isinstance(v, tuple) else v) for a, v in ENTRY.numbers)


@ms.rule
def moved(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Move a reduction to an option that is not always legal."""
    if not sch.describe(block).reduces:
        return ms.skip("it is no reduction")
    if sch.choose("place", ["here", "nowhere"]) == "nowhere":
        sch.compute_inline(block)
    return None


def test_a_neighbour_that_is_not_legal_here_is_left_out_and_counted_by_the_reason() -> None:
    space = ms.space(PRODUCT, [moved], target=AVX512)
    illegal = replace(ENTRY, structure=(("moved({anchor})/place", "nowhere"),), numbers=())
    arms = SpaceArms(space, AVX512, DEFAULT_CORE, Knowledge((illegal, replace(illegal, extents=(48, 64, 60)))))
    assert len(arms.transfer_result) == 0
    (reason,) = arms.transfer_result.reasons
    assert reason.startswith("compute_inline: ")
    assert arms.refused[reason] == 2
    found = guess(PRODUCT, AVX512, [moved], knowledge=Knowledge((illegal,)))
    assert found.counts() == {reason: 1}
    assert f"not 48x64x64 (16 lanes, 2 threads): {reason}" in str(found)


def test_neighbours_beyond_the_structures_that_are_looked_at_are_counted() -> None:
    ways = [("none", "none"), ("none", "A"), ("none", "B"), ("cache at level 1", "none")]
    said = [{"tiles({anchor})/fusion": fusion, "tiles({anchor})/copy": copy} for fusion, copy in ways]
    roles = {"A": "{anchor#0}", "B": "{anchor#1}"}
    entries = [
        replace(ENTRY, structure=tuple((a, roles.get(d, d)) for a, d in each.items()), extents=(48, 64, 64 + n))
        for n, each in enumerate(said)
    ]
    found = transferred_into(space_of(PRODUCT), Knowledge(tuple(entries)), AVX512, DEFAULT_CORE)
    assert [near.name for near, _ in found.left_out] == ["48x64x67 (16 lanes, 2 threads)"]
    assert found.reasons == {"nearer ones had 3 other structures": 1}


def test_what_is_carried_over_is_an_arm_to_search_from() -> None:
    space = ms.space(PRODUCT, RULES, target=AVX512, max_sketches=1)
    arms = SpaceArms(space, AVX512, DEFAULT_CORE, KNOWN)
    candidate = arms.locate(str(arms.transfer_result[0].trace))
    assert candidate is not None
    assert candidate.arm in arms.known()
    assert SpaceArms(space, AVX512).known() == []
    assert arms.trace(candidate) == str(arms.transfer_result[0].trace)


# --- guesses


def test_the_guess_is_what_was_found_where_nobody_knows_better() -> None:
    program = ms.parse_program(RENAMED)
    found = guess(program, AVX512, RULES, knowledge=KNOWN)
    assert found.neighbour is not None
    assert str(found).startswith("a guess: what was found for 48x64x64 (16 lanes, 2 threads) of y[s0, s1] sum=")
    assert guess(program, AVX512, RULES, knowledge="none").neighbour is None


def test_what_is_not_whole_is_compared_with_the_best_of_the_space() -> None:
    """Rules change: what was found with others may still be better than what nobody has measured."""
    stale = Knowledge((replace(ENTRY, structure=(), numbers=_with(1)),))
    found = guess(PRODUCT, AVX512, RULES, knowledge=stale)
    assert found.neighbour is not None
    assert not found.neighbour.is_whole
    assert "the best of the rules' space by the estimate" in found.why


def test_what_is_not_whole_is_no_guess_where_an_expert_wrote_a_trace() -> None:
    program = ms.operator("dense_bias_relu", M=64, N=96, K=80)
    found = guess(program, AVX512, knowledge=Knowledge((replace(ENTRY, structure=()),)))
    assert found.neighbour is None
    assert found.others


def test_the_guess_is_no_worse_in_estimate_than_the_best_known_without() -> None:
    for program in (PRODUCT, ms.operator("dense_bias_relu", M=128, N=256, K=256)):
        without = guess(program, AVX512, knowledge="none")
        assert without.expert is not None
        for known in (ENTRY, replace(ENTRY, numbers=_with(1)), replace(ENTRY, structure=())):
            found = guess(program, AVX512, knowledge=Knowledge((known,)))
            assert _log_seconds(program, found.trace) <= _log_seconds(program, without.trace)


def _log_seconds(program: ms.Program, trace: ms.Trace) -> float:
    features = features_of(trace.apply_to(program).func, AVX512, DEFAULT_CORE)
    return float(read_shipped_model().log_seconds(features[None])[0])


def test_a_task_measures_the_guess_first_and_then_its_neighbours() -> None:
    other = replace(ENTRY, extents=(48, 64, 60), numbers=_with(2))
    task = Task(ms.parse_program(RENAMED), RULES, AVX512, knowledge=Knowledge((ENTRY, other)))
    guesses = task.guesses()
    assert guesses.own == str(task.arms.transfer_result[0].trace)
    assert guesses.neighbours == tuple(str(one.trace) for one in task.arms.transfer_result[1:4])
    assert guesses.with_roles()[0][0] == guesses.own
    assert Task(ms.parse_program(RENAMED), RULES, AVX512, knowledge="none").guesses().neighbours == ()


def test_knowledge_that_is_given_makes_another_search() -> None:
    texts = {Task(PRODUCT, "cpu", AVX512, knowledge=k).fingerprint for k in (None, "none", KNOWN)}
    assert len(texts) == 3


def test_a_second_product_is_tiled_as_the_nearest_of_its_kind_was() -> None:
    program = ms.parse_program(
        "program two(X: f32[48, 64], A: f32[64, 64], B: f32[64, 64]) -> Y: f32[48, 64]:\n"
        "    U[i, h] = sum[k](X[i, k] * A[k, h])\n    Y[i, j] = sum[h](U[i, h] * B[h, j])\n"
    )
    found = transferred(space_of(program))
    assert found.sketch.structure["tiles(U)/copy"] == "A"
    assert found.sketch.structure["tiles(Y)/copy"] == "B"
    decisions = found.trace.decisions
    wanted = {**{f"tiles(U)/{name}": tile for name, tile in (("i", TILES["i"]), ("h", TILES["j"]), ("k", TILES["k"]))}}
    assert sum(decisions[address] != tile for address, tile in wanted.items()) <= 2


@ms.rule
def doubled(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Unroll twice as much of a reduction, or leave it alone."""
    if not sch.describe(block).reduces:
        return ms.skip("it is no reduction")
    if sch.choose("how", [ms.LEFT_ALONE, "doubled"]) != ms.LEFT_ALONE:
        sch.annotate(block, "unroll_limit", 32)
    return None


def test_a_choice_that_the_best_neighbour_did_not_have_is_tried_though_others_had_it() -> None:
    program = ms.operator("matmul_nn", M=50, N=64, K=64)
    space = ms.space(program, [tiles, doubled], target=AVX512)
    knew = replace(ENTRY, structure=(*ENTRY.structure, ("doubled({anchor})/how", ms.LEFT_ALONE)), extents=(9, 64, 64))
    found = transferred_into(space, Knowledge((ENTRY, knew)), AVX512, DEFAULT_CORE)
    tried = [one for one in found if one.sketch.structure["doubled(C)/how"] == "doubled"]
    assert tried
    assert all("older than this choice" in dict(one.dropped)["doubled(C)/how"] for one in tried)
    without = transferred_into(space, Knowledge((knew,)), AVX512, DEFAULT_CORE)
    assert all(one.sketch.structure["doubled(C)/how"] == ms.LEFT_ALONE for one in without)


def test_other_ways_are_tried_where_what_the_neighbour_decided_is_not_offered() -> None:
    """A neighbour copied an operand ahead of time, which is not offered here: there are copies at once, and none."""
    program = ms.operator("matmul_nn", M=50, N=64, K=64)
    copied = ("tiles({anchor})/copy", "{anchor#1} ahead of time")
    elsewhere = replace(ENTRY, structure=(ENTRY.structure[0], copied))
    found = transferred_into(ms.space(program, [tiles], target=AVX512), Knowledge((elsewhere,)), AVX512, DEFAULT_CORE)
    ways = {one.sketch.structure["tiles(C)/copy"]: dict(one.dropped) for one in found}
    assert len(ways) > 1
    assert any("is not offered here" in dropped.get("tiles(C)/copy", "") for dropped in ways.values())


@ms.rule
def together(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute what a reduction reads in strips of its result, or leave it alone."""
    producers = sch.get_producers(block)
    if not producers:
        return ms.skip("nothing computes what it reads")
    if sch.choose("how", [ms.LEFT_ALONE, "in strips"]) != ms.LEFT_ALONE:
        rows, *_ = sch.get_loops(block)
        strips, _ = sch.split(rows, sch.sample_tile(rows, parts=2))
        sch.compute_at(producers[0], strips)
    return None


def test_numbers_are_those_of_the_best_where_a_choice_gives_loops_other_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("metasched.search.arms.transferred._CLIMBS_FOR_OPTION", 0)  # nothing is varied
    program = ms.parse_program(
        "program two(X: f32[48, 64], A: f32[64, 64], B: f32[64, 9]) -> Y: f32[48, 9]:\n"
        "    U[i, h] = sum[k](X[i, k] * A[k, h])\n    Y[i, j] = sum[h](U[i, h] * B[h, j])\n"
    )
    space = ms.space(program, [together, tiles], target=AVX512)
    found = transferred_into(space, KNOWN, AVX512, DEFAULT_CORE)
    in_strips = next(one for one in found if one.sketch.structure["together(Y)/how"] == "in strips")
    apart = next(one for one in found if one.sketch.structure["together(Y)/how"] == ms.LEFT_ALONE)
    names = {"h": "h_U", "k": "k_U"}
    wanted = {there: apart.trace.decisions[f"tiles(U)/{here}"] for here, there in names.items()}
    assert {there: in_strips.trace.decisions[f"tiles(U)/{there}"] for there in names.values()} == wanted


DENSE = "program dense(A: u8[{m}, 512], const B: i8[512, 512]) -> Y: i32[{m}, 512]:\n"
DENSE += "    Y[i, o] = sum[k](i32(A[i, k]) * i32(B[k, o]))\n"


HALVES = "program dense(A: bf16[96, 512], const B: bf16[512, 512]) -> Y: f32[96, 512]:\n"
HALVES += "    Y[i, o] = sum[k](f32(A[i, k]) * f32(B[k, o]))\n"


def test_what_was_found_with_an_instruction_that_the_target_lacks_is_no_neighbour() -> None:
    def taken(target: ms.Target) -> set[Decision]:
        space = ms.space(ms.parse_program(HALVES), target=target)
        found = transferred_into(space, shipped(), target, DEFAULT_CORE)
        return {option for one in found for _, option in one.neighbour.entry.structure}

    assert "tile_bf16_amx" in taken(SAPPHIRE)
    assert "tile_bf16_amx" not in taken(SAPPHIRE.without({"amx-tile", "amx-bf16"}))


@pytest.mark.parametrize(
    ("rows", "features", "taken"),
    [
        (96, frozenset[str](), "tile_u8i8_amx"),
        (96, frozenset({"amx-tile", "amx-int8"}), "dot_u8i8_vnni"),
        (1, frozenset[str](), "dot_u8i8_vnni"),  # of one row, tiles would compute mostly padding
    ],
)
def test_neighbours_had_the_choice_of_an_instruction_that_there_is_here(
    rows: int, features: frozenset[str], taken: str
) -> None:
    target = SAPPHIRE.without(features)
    space = ms.space(ms.parse_program(DENSE.format(m=rows)), target=target)
    found = transferred_into(space, shipped(), target, DEFAULT_CORE)
    had = [dict(one.neighbour.entry.structure) for one in found]
    assert had
    choice = "use_amx({anchor})/intrinsic"
    assert all((choice in structure) is (taken == "tile_u8i8_amx") for structure in had)
    assert taken in found[0].sketch.structure.values()


CONVOLUTION = """
program layer(A: u8[1, 30, 30, 64], const B: i8[3, 3, 64, 64]) -> Y: i32[1, 28, 28, 64]:
    Y[n, h, w, o] = sum[r, s, c](i32(A[n, h + r, w + s, c]) * i32(B[r, s, c, o]))
"""


def test_what_was_found_with_an_instruction_is_carried_over_to_one_of_its_form() -> None:
    """Of convolutions in bytes nothing is known for vectors of 8 numbers."""
    space = ms.space(ms.parse_program(CONVOLUTION), target=ALDER)
    found = transferred_into(space, shipped(), ALDER, DEFAULT_CORE)
    assert found
    for one in found:
        assert one.neighbour.entry.cpu.lanes == 16
        decided = {address: taken for address, taken in one.neighbour.entry.structure if address.endswith("/intrinsic")}
        assert set(decided.values()) <= {"dot_u8i8_avxvnni", "none"}
    assert "dot_u8i8_avxvnni" in found[0].sketch.structure.values()
    less = ALDER.without({"avxvnni"})
    bare = transferred_into(ms.space(space.program, target=less), shipped(), less, DEFAULT_CORE)
    assert not any("vnni" in str(taken) for one in bare for _, taken in one.neighbour.entry.structure)
