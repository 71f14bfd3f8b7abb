"""A schedule knows what it is for, however it came about; the trace does not."""

from __future__ import annotations

import re

import pytest

import metasched as ms
from metasched.schedule.handlers import DrawFromPrior
from metasched.target import Target
from tests.support.schedules import program

SMALL = Target("haswell", frozenset({"avx", "avx2", "fma"}), 3, 1 << 15, 1 << 18, 1 << 23)
WIDE = Target("skylake-avx512", frozenset({"avx", "avx512f"}), 3, 1 << 15, 1 << 20, 1 << 25)


def wide_lanes(sch: ms.Schedule) -> None:
    """As many lanes as a register has: another trace for another target."""
    block = sch.get_block("dense")
    _, j, _ = sch.get_loops(block)
    sch.vectorize(j, lanes=sch.target.lanes(sch.describe(block).dtype))


def lanes(sch: ms.Schedule) -> int:
    return next(int(str(dict(i.kwargs)["lanes"])) for i in sch.trace.instructions if i.op == "vectorize")


def test_it_is_this_machine_unless_one_is_given() -> None:
    assert ms.Schedule(program()).target == Target.detect()
    assert ms.Schedule(program(), SMALL).target == SMALL
    assert ms.Schedule(program(), target=SMALL, seed=3).target == SMALL


def test_copies_are_for_the_same_target() -> None:
    sch = ms.Schedule(program(), SMALL)
    assert sch.fork(DrawFromPrior(0)).target == sch.trial().target == SMALL
    asked: list[Target] = []
    assert sch.refusal(lambda trial: asked.append(trial.target)) is None
    with sch.all_or_nothing():
        asked.append(sch.target)
    assert asked == [SMALL, SMALL]


def test_a_module_asks_it() -> None:
    found = []
    for target in (SMALL, WIDE):
        sch = ms.Schedule(program(), target)
        wide_lanes(sch)
        found.append(lanes(sch))
    assert found == [8, 16]


def test_a_module_is_run_again_for_a_target() -> None:
    made = ms.Schedule(program(), SMALL)
    wide_lanes(made)
    again = ms.rerun(wide_lanes, program(), made.trace, target=WIDE)
    assert again.target == WIDE
    assert lanes(again) == 16


def test_a_trace_means_the_same_for_any_target() -> None:
    made = ms.Schedule(program(), SMALL)
    wide_lanes(made)
    replayed = made.trace.apply_to(program(), target=WIDE)
    assert replayed.target == WIDE
    assert replayed.trace == made.trace
    assert replayed.func == made.func
    assert "target" not in str(made.trace)


def test_a_space_is_one_for_a_target() -> None:
    for target, expected in ((SMALL, 8), (WIDE, 16)):
        space = ms.space(program(), wide_lanes, target=target)
        assert space.target == target
        assert f"lanes={expected}" in str(space[0].trace)
        same = ms.condition(space, {})
        assert isinstance(same, ms.Space)
        assert f"lanes={expected}" in str(same[0].trace)


def test_a_space_that_was_made_for_another_target_is_made_anew() -> None:
    space = ms.space(program(), wide_lanes, target=SMALL)
    assert "lanes=8" in str(space[0].trace)
    other = ms.space(program(), space, target=WIDE)
    assert "lanes=16" in str(other[0].trace)
    assert ms.space(program(), space, target=SMALL) is space
    assert ms.space(program(), space) is space


def test_rules_and_predicates_ask_it_where_they_are_tried() -> None:
    @ms.rule
    def only_wide(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
        """Lanes, where registers are wide."""
        if not sch.target.has("avx512f"):
            return ms.skip("the target has no AVX-512")
        if sch.name_of(block) == "dense":
            wide_lanes(sch)
        return None

    for rule in (only_wide, ms.choice("c", only_wide), ms.attempt(only_wide), ms.sequence(only_wide)):
        assert "the target has no AVX-512" in ms.space(program(), [rule], target=SMALL).explain()
        assert "lanes=16" in str(ms.space(program(), [rule], target=WIDE)[0].trace)


TEXT = """\
module by_target(block):
    if not reduces(block) or not target_has("avx512f"): skip "no"
    if target_l2() < 1048576 or dtype(block) != "f32": skip "small"
    _, j, _ = get_loops(block)
    vectorize(j, lanes=target_lanes(dtype(block)))
"""


def test_a_module_in_text_asks_it() -> None:
    rule = ms.parse_module(TEXT)
    assert "not applied: no" in ms.space(program(), [rule], target=SMALL).explain()
    assert "lanes=16" in str(ms.space(program(), [rule], target=WIDE)[0].trace)


def test_a_misspelt_instruction_set_shows_before_the_module_runs() -> None:
    with pytest.raises(ms.LanguageError) as info:
        ms.parse_module(TEXT.replace("avx512f", "avx512x"))
    (mistake,) = info.value.diagnostics
    assert (mistake.line, mistake.message) == (2, "there is no instruction set `avx512x`")
    assert mistake.hint.startswith("did you mean `avx512")


def test_a_number_is_no_target() -> None:
    message = "`target` is an int, not a Target\n  hint: a seed is given as `seed=`"
    with pytest.raises(ms.MetaschedError, match=re.escape(message)):
        ms.Schedule(program(), 3)  # type: ignore[arg-type]
    with pytest.raises(ms.MetaschedError, match="`target` is a str, not a Target"):
        ms.space(program(), target="haswell")  # type: ignore[arg-type]
