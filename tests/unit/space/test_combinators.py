from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.space.rule import Outcome
from metasched.space.source import FromRules
from tests.support.programs import DENSE_RELU
from tests.support.schedules import program, schedule


@ms.rule
def split_rows(sch: ms.Schedule, block: ms.BlockRV, *, size: int = 4) -> ms.Skip | None:
    """Split the first loop."""
    if len(sch.get_loops(block)) > 3:
        return ms.skip("it is split")
    sch.split(sch.get_loops(block)[0], [None, size])
    return None


@ms.rule
def tile(sch: ms.Schedule, block: ms.BlockRV, *, size: int = 8, parts: int = 2) -> ms.Skip | None:
    """Tile a reduction's first loop.

    In parts.
    """
    if not sch.describe(block).reduces:
        return ms.skip("it is not a reduction")
    loop = sch.get_loops(block)[0]
    sch.split(loop, sch.sample_tile(loop, parts=parts))
    return None


@ms.rule
def greedy(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Run the innermost loop in parallel, whatever it does."""
    loops = sch.get_loops(block)
    sch.split(loops[0], sch.sample_tile(loops[0]))
    if sch.choose("which", ["inner", "outer"]) == "inner":
        sch.parallel(loops[-1])


@ms.rule
def inline(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Inline it."""
    sch.compute_inline(block)


@ms.rule
def nothing(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip:
    """Leave everything."""
    return ms.skip("not today")


def on(sch: ms.Schedule, block: str, *rules: ms.Rule) -> list[Outcome]:
    out: list[Outcome] = []
    for rule in rules:
        rule.apply(sch, sch.get_block(block), out.append)
    return out


def space(*rules: ms.Rule) -> ms.Space:
    return ms.space(program(DENSE_RELU), rules=rules)


def is_long(info: ms.BlockInfo) -> bool:
    return len(info.loops) > 2


def everything() -> list[ms.Rule]:
    return [
        ms.sequence(split_rows, tile),
        ms.choice("tiling", split_rows, tile, None),
        ms.when(is_long, tile),
        ms.attempt(greedy),
        ms.each_consumer(split_rows),
        ms.each_consumer(ms.attempt(ms.choice("deep", ms.sequence(tile, greedy), split_rows))),
    ]


@pytest.mark.parametrize("number", range(6))
def test_a_combination_is_a_rule_like_any_other(number: int) -> None:
    """It is documented, equal when made again, enumerated, and its traces replay."""
    rule = everything()[number]
    assert rule.doc
    assert rule == everything()[number]
    sketches = list(space(rule))
    for sketch in sketches:
        (row,) = sketch.repair(sketch.sample(np.random.default_rng(0), 1))
        trace = sketch.trace_of(row)
        assert trace.apply_to(program(DENSE_RELU)).trace == trace
    assert [s.trace for s in sketches] == [s.trace for s in space(everything()[number])]


# --- sequence


def test_a_sequence_leaves_what_its_parts_leave() -> None:
    one, two = schedule(), schedule()
    on(one, "dense", ms.sequence(split_rows, tile))
    on(two, "dense", split_rows)
    tile.apply(two, ms.BlockRV("dense"))
    assert one.trace == two.trace
    assert str(one.trace) == str(two.trace)


def test_a_sequence_says_what_each_part_did() -> None:
    assert on(schedule(), "relu", ms.sequence(tile, split_rows)) == [
        Outcome("sequence(tile, split_rows)", "relu", None),
        Outcome("sequence(tile, split_rows) > tile", "relu", "it is not a reduction"),
        Outcome("sequence(tile, split_rows) > split_rows", "relu", None),
    ]
    (whole, *_) = on(schedule(), "relu", ms.sequence(tile, nothing).named("both"))
    assert whole == Outcome("both", "relu", "tile: it is not a reduction; nothing: not today")


def test_a_sequence_goes_on_when_the_block_is_gone() -> None:
    text = """
program two[N=8](A: f32[N]) -> C: f32[N]:
    b: B[i] = A[i] + 1
    c: C[i] = B[i] * 2
"""
    sch = schedule(text)
    assert on(sch, "b", ms.sequence(inline, split_rows))[0] == Outcome("sequence(inline, split_rows)", "b", None)
    assert sch.block_names() == ("c",)


def test_keywords_go_to_every_part_that_has_them() -> None:
    both = ms.sequence(split_rows, tile)
    assert both.parameters == {"size": 4, "parts": 2}
    assert both(size=16) == ms.sequence(split_rows(size=16), tile(size=16))
    assert both(parts=3) == ms.sequence(split_rows, tile(parts=3))
    with pytest.raises(ms.RuleError, match=re.escape("has no parameter `lanes`; it has size, parts")):
        both(lanes=3)


# --- choice


def test_a_choice_is_a_sketch_each() -> None:
    made = space(ms.choice("tiling", split_rows, tile, None).only("dense"))
    assert [s.structure["tiling(dense)/rule"] for s in made] == ["split_rows", "tile", "none"]
    assert "tiling(dense)/tile(dense)/" in str(made[1].trace)


def test_only_rules_that_would_apply_are_offered() -> None:
    """A choice must not multiply the sketches by rules that do nothing."""
    assert len(space(ms.choice("tiling", tile, nothing))) == 1
    sch = schedule()
    (whole, *_) = on(sch, "relu", ms.choice("tiling", tile, nothing))
    assert whole.reason == "tile: it is not a reduction; nothing: not today"
    assert not sch.sites


def test_a_rule_whose_skipping_hangs_on_a_choice_is_offered() -> None:
    @ms.rule
    def perhaps(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
        """Split, or not."""
        if not sch.choose("whether", [False, True]):
            return ms.skip("not this time")
        sch.split(sch.get_loops(block)[0], [None, 2])
        return None

    assert len(space(ms.choice("c", perhaps, tile).only("dense"))) == 3


def test_a_choice_of_rules_of_one_name() -> None:
    with pytest.raises(ms.RuleError, match='choice "c": two rules are named `tile`'):
        ms.choice("c", tile, tile(parts=3))
    both = ms.choice("c", tile, tile(parts=3).named("deep"))
    assert [s.structure["c(dense)/rule"] for s in space(both)] == ["tile", "deep"]


# --- when


def test_a_condition() -> None:
    sch = schedule()
    assert on(sch, "relu", ms.when(is_long, split_rows)) == [
        Outcome("split_rows", "relu", "when: `is_long` does not hold")
    ]
    assert on(sch, "dense", ms.when(is_long, split_rows)) == [Outcome("split_rows", "dense", None)]


def test_the_reason_of_a_condition() -> None:
    assert on(schedule(), "relu", ms.when(is_long, tile, otherwise="too short"))[0].reason == "too short"
    reason = on(schedule(), "relu", ms.when(lambda info: info.reduces, tile))[0].reason
    assert reason is not None
    assert "lambda info: info.reduces" in reason
    assert "test_combinators.py:" in reason


def test_a_condition_is_configured_as_its_rule_is() -> None:
    assert ms.when(is_long, tile)(parts=3).parameters == ms.when(is_long, tile(parts=3)).parameters
    sch = schedule()
    on(sch, "dense", ms.when(is_long, tile)(parts=3))
    assert "parts=3" in str(sch.trace)


def test_a_condition_that_fails_names_itself() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        on(schedule(), "relu", ms.when(lambda info: 1 // 0 > 1, tile))
    assert "in the condition of rule tile, on block `relu`" in caught.value.__notes__[0]


# --- attempt


def test_an_attempt_undoes_everything() -> None:
    untouched = schedule()
    on(untouched, "dense", nothing)
    tried = ((sch, on(sch, "dense", ms.attempt(greedy))[0]) for sch in (schedule(seed=n) for n in range(9)))
    sch, outcome = next(pair for pair in tried if pair[1].reason is not None)
    assert outcome.reason is not None
    assert outcome.reason.startswith("tried and undone: parallel: loop `k` runs along a reduction")
    assert sch.func == untouched.func
    assert [str(s.site.address) for s in sch.sites] == ["greedy(dense)/which"]
    assert [i.op for i in sch.trace.instructions] == ["get_block", "choose"]
    assert sch.context.taken - untouched.context.taken == {"which"}
    split_rows(sch, ms.BlockRV("dense"))
    assert sch.trace.apply_to(program(DENSE_RELU)).func == sch.func


def test_what_an_attempt_chose_before_it_failed_is_enumerated() -> None:
    made = space(ms.attempt(greedy).only("dense"))
    assert [s.structure["greedy(dense)/which"] for s in made] == ["inner", "outer"]
    assert [len(s.variables) for s in made] == [0, 1]
    text = made.explain()
    assert "greedy  applied  (in 1 of 2 sketches)" in text
    assert "not applied: tried and undone: parallel: loop `k` runs along" in text


def test_an_attempt_runs_again_with_the_decisions_of_its_trace() -> None:
    def module(sch: ms.Schedule) -> None:
        ms.sequence(ms.attempt(greedy), tile)(sch, sch.get_block("dense"))

    for seed in range(4):
        sch = ms.Schedule(program(DENSE_RELU), seed=seed)
        module(sch)
        assert ms.rerun(module, program(DENSE_RELU), sch.trace).trace == sch.trace


def test_an_attempt_does_not_hide_mistakes() -> None:
    @ms.rule
    def broken(sch: ms.Schedule, block: ms.BlockRV) -> None:
        """Divide by zero."""
        _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        on(schedule(), "dense", ms.attempt(broken))


def test_facts_of_an_attempt_are_undone() -> None:
    @ms.rule
    def noting(sch: ms.Schedule, block: ms.BlockRV) -> None:
        """Leave a note and fail."""
        sch.add_fact(block, 3)
        sch.parallel(sch.get_loops(block)[-1])

    sch = schedule()
    on(sch, "dense", ms.attempt(noting))
    assert sch.facts(ms.BlockRV("dense"), int) is None


# --- each_consumer


def test_every_consumer() -> None:
    assert on(schedule(), "dense", ms.each_consumer(split_rows)) == [
        Outcome("each_consumer(split_rows)", "dense", None),
        Outcome("each_consumer(split_rows) > split_rows", "relu", None),
    ]
    assert on(schedule(), "relu", ms.each_consumer(split_rows))[0].reason == "nothing reads its result"
    assert on(schedule(), "dense", ms.each_consumer(tile))[0].reason == "relu: it is not a reduction"


# --- mistakes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (ms.sequence, "sequence: there are no rules to combine"),
        (lambda: ms.sequence(tile, is_long), "sequence: `is_long` is no rule: decorate the function"),  # type: ignore[arg-type]
        (lambda: ms.attempt("tile"), "attempt: `'tile'` is no rule"),  # type: ignore[arg-type]
        (lambda: ms.choice(tile, split_rows), "choice: the first argument is its name"),  # type: ignore[arg-type]
        (lambda: ms.choice("c", None), "choice: there are no rules to combine"),
        (lambda: ms.when("tile", tile), "when: the first argument is a function"),  # type: ignore[arg-type]
        (lambda: ms.each_consumer(is_long), "each_consumer: `is_long` is no rule"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_combined(make: Any, message: str) -> None:
    with pytest.raises(ms.RuleError, match=re.escape(message)):
        make()


# --- what is said of parts


@ms.rule
def ill(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Run one loop in parallel twice, which is not legal."""
    loop = sch.get_loops(block)[0]
    sch.parallel(loop)
    sch.parallel(loop)


def silent(text: str) -> str:
    """What an explanation says of rules that never applied."""
    return text[text.index("\nrule ") + 1 :].partition("\nchoice ")[0]


def test_a_part_of_a_choice_that_never_applies_is_said_with_its_reason() -> None:
    text = space(ms.choice("c", nothing, split_rows)).explain()
    assert "    c > nothing     not applied: not today\n    c > split_rows  applied\n" in text
    assert silent(text) == "rule c > nothing never applied\n    relu   not today\n    dense  not today"


def test_a_part_of_a_choice_that_skips_a_block_is_said() -> None:
    text = space(ms.choice("c", tile, split_rows, None)).explain()
    assert "block relu\n    c               applied\n    c > tile        not applied: it is not a reduction\n" in text
    assert "    c > tile        applied  (in 2 of 6 sketches)\n" in text
    assert "never" not in text


def test_the_parts_of_a_choice_of_which_none_applies() -> None:
    assert on(schedule(), "relu", ms.choice("c", tile, ms.sequence(nothing, tile)))[1:] == [
        Outcome("c > tile", "relu", "it is not a reduction"),
        Outcome("c > sequence(nothing, tile)", "relu", "nothing: not today; tile: it is not a reduction"),
        Outcome("c > sequence(nothing, tile) > nothing", "relu", "not today"),
        Outcome("c > sequence(nothing, tile) > tile", "relu", "it is not a reduction"),
    ]


def test_the_parts_of_an_attempt_that_is_undone() -> None:
    """What applied before the step that is not legal is undone with it, and what comes after is not come to."""
    rule = ms.attempt(ms.choice("x", ms.sequence(split_rows, ill, tile), tile)).only("dense")
    text = space(rule).explain()
    twice = "tried and undone: parallel: loop `i_0` is parallel"
    closed_up = re.sub(" +", " ", text)
    assert f" x not applied: {twice} (in 1 of 2 sketches)\n" in closed_up
    assert " x > tile applied (in 1 of 2 sketches)\n" in closed_up
    whole = "rule x > sequence(split_rows, ill, tile)"
    assert silent(text) == (
        f"{whole} never applied\n    dense  {twice}\n"
        f"{whole} > split_rows never applied\n    dense  {twice}\n"
        f"{whole} > ill never applied\n    dense  {twice}\n"
        f"{whole} > tile never applied\n    dense  not come to: a step of ill is not legal"
    )


def test_the_parts_of_an_attempt_that_is_legal() -> None:
    assert on(schedule(), "relu", ms.attempt(ms.sequence(tile, split_rows)).named("both")) == [
        Outcome("both", "relu", None),
        Outcome("both > tile", "relu", "it is not a reduction"),
        Outcome("both > split_rows", "relu", None),
    ]


def test_the_parts_of_a_condition() -> None:
    rule = ms.when(is_long, ms.choice("c", nothing, tile))
    assert on(schedule(), "dense", rule) == [
        Outcome("c", "dense", None),
        Outcome("c > nothing", "dense", "not today"),
        Outcome("c > tile", "dense", None),
    ]
    text = silent(space(rule.only("relu")).explain())
    assert text.splitlines()[-2:] == [
        "rule c > nothing never applied: no sketch came to it",
        "rule c > tile never applied: no sketch came to it",
    ]


def test_a_part_whose_block_is_gone_is_said() -> None:
    text = """
program two[N=8](A: f32[N]) -> C: f32[N]:
    b: B[i] = A[i] + 1
    c: C[i] = B[i] * 2
"""
    gone = Outcome("both > split_rows", "b", "the block is gone")
    assert gone in on(schedule(text), "b", ms.sequence(inline, split_rows).named("both"))


def test_the_names_of_parts() -> None:
    rule = ms.when(is_long, ms.choice("c", ms.attempt(ms.sequence(tile, ill)).named("s"), ms.each_consumer(tile)))
    assert rule.inner == ("s", "s > tile", "s > ill", "each_consumer(tile)", "each_consumer(tile) > tile")
    assert tile.inner == ()


def test_a_list_of_combinations_is_a_space() -> None:
    outcomes = FromRules((ms.sequence(split_rows, tile),)).run(schedule())
    assert [o.block for o in outcomes] == ["relu"] * 3 + ["dense"] * 3
