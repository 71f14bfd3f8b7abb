from __future__ import annotations

from typing import Any

import pytest

import metasched as ms
from metasched.space.explanation import explain
from metasched.space.rule import Outcome
from metasched.space.source import FromRules
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL
from tests.support.schedules import program, schedule


@ms.rule
def split_first(sch: ms.Schedule, block: ms.BlockRV, *, size: int = 4, name: str = "x") -> ms.Skip | None:
    """Split the first loop.

    By a constant.
    """
    if not sch.describe(block).reduces:
        return ms.skip("it is not a reduction")
    sch.sample_categorical([1, 2], name=name)
    sch.split(sch.get_loops(block)[0], [None, size])
    return None


def test_a_rule_knows_its_name_documentation_and_parameters() -> None:
    assert split_first.name == "split_first"
    assert split_first.doc == "Split the first loop.\n\nBy a constant."
    assert split_first.parameters == {"size": 4, "name": "x"}


def test_a_configured_rule_is_another_value() -> None:
    eight = split_first(size=8)
    assert isinstance(eight, ms.Rule)
    assert eight.parameters == {"size": 8, "name": "x"}
    assert eight(name="y").parameters == {"size": 8, "name": "y"}
    assert eight == split_first(size=8) != split_first
    assert split_first.parameters["size"] == 4


def test_a_parameter_that_it_does_not_have() -> None:
    with pytest.raises(ms.RuleError, match="rule split_first has no parameter `sizes`; it has size, name"):
        split_first(sizes=8)


def test_applying_opens_a_scope() -> None:
    sch = schedule()
    assert split_first(sch, sch.get_block("dense")) is None
    assert [r.site.address for r in sch.sites] == ["split_first(dense)/x"]
    assert split_first(size=3)(sch, sch.get_block("relu")) == ms.Skip("it is not a reduction")


def test_a_rule_called_with_parameters() -> None:
    one, two = schedule(), schedule()
    split_first(one, one.get_block("dense"), size=3)
    split_first(size=3)(two, two.get_block("dense"))
    assert one.trace == two.trace
    assert "split(i, [None, 3])" in str(one.trace)


@pytest.mark.parametrize("args", [(1, 2), (schedule(), "dense")])
def test_what_a_rule_applies_to(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="rule split_first: call it with a Schedule and a block, or with keywords"):
        split_first(*args)


# --- the contract


def test_skipping_after_a_transformation() -> None:
    @ms.rule
    def late(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip:
        """Think too late."""
        sch.split(sch.get_loops(block)[0], [None, 2])
        return ms.skip("on second thoughts")

    sch = schedule()
    with pytest.raises(ms.RuleError, match="rule late skipped block `dense` after transforming it; decide first"):
        late(sch, sch.get_block("dense"))


def test_skipping_after_looking_and_choosing_is_fine() -> None:
    @ms.rule
    def careful(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
        """Look, and leave it."""
        sch.get_loops(block)
        return ms.skip("not today") if sch.choose("whether", [True, False]) else None

    found = {}
    for seed in range(8):
        sch = ms.Schedule(program(), seed=seed)
        result = careful(sch, sch.get_block("dense"))
        found[sch.sites[0].decision] = result
    assert found == {True: ms.Skip("not today"), False: None}


@pytest.mark.parametrize("result", [True, "not a reduction", ms.BlockRV("dense"), ()])
def test_results_that_mean_nothing(result: object) -> None:
    @ms.rule
    def wrong(sch: ms.Schedule, block: ms.BlockRV) -> Any:
        """Return something else."""
        return result

    sch = schedule()
    with pytest.raises(ms.RuleError, match=r"rule wrong returned .*; a rule returns None, or skip\(reason\)"):
        wrong(sch, sch.get_block("dense"))


def test_a_rule_is_documented() -> None:
    def silent(sch: ms.Schedule, block: ms.BlockRV) -> None: ...

    with pytest.raises(ms.RuleError, match=r"rule silent .*has no docstring, which is its documentation"):
        ms.rule(silent)


@pytest.mark.parametrize("extra", [0, 2])
def test_parameters_are_keywords(extra: int) -> None:
    def one(sch: ms.Schedule) -> None:
        """Take too little."""

    def three(sch: ms.Schedule, block: ms.BlockRV, size: int) -> None:
        """Take too much."""

    function: Any = three if extra else one
    message = r"the parameters are \(schedule, block\), and the others keyword-only"
    with pytest.raises(ms.RuleError, match=message):
        ms.rule(function)


def test_what_a_rule_is_run_by_has_a_default() -> None:
    def asks(sch: ms.Schedule, block: ms.BlockRV, *, size: int) -> None:
        """Ask for a size."""

    with pytest.raises(ms.RuleError, match="rule asks: its parameter `size` has no default, by which it is run"):
        ms.rule(asks)


@pytest.mark.parametrize("reason", [None, "", 5])
def test_a_block_is_skipped_for_a_reason(reason: Any) -> None:
    with pytest.raises(ms.RuleError, match=r"a rule skips a block for the reason .*: say in words why"):
        ms.skip(reason)


def test_an_error_in_a_rule_is_not_swallowed() -> None:
    @ms.rule
    def greedy(sch: ms.Schedule, block: ms.BlockRV) -> None:
        """Run everything in parallel, reductions too."""
        sch.parallel(sch.get_loops(block)[-1])

    with pytest.raises(ms.ScheduleError, match="parallel: loop `k` runs along a reduction of block `dense`"):
        len(ms.space(program(DENSE_RELU), rules=[greedy]))


# --- running several


def visited(text: str, *rules: ms.Rule) -> list[tuple[str, str]]:
    return [(o.rule, o.block) for o in FromRules(rules).run(schedule(text))]


@ms.rule
def look(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Do nothing."""


@ms.rule
def copy_out(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Make a block."""
    if not sch.describe(block).output or block.label.endswith("write"):
        return ms.skip("it writes no output")
    sch.cache_write(block, scope="local")
    return None


@ms.rule
def drop(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Inline what can be."""
    if sch.describe(block).output or sch.describe(block).reduces:
        return ms.skip("it stays")
    sch.compute_inline(block)
    return None


def test_rules_run_in_order_and_visit_consumers_first() -> None:
    assert visited(RELU_PAD_MATMUL, look, look) == [("look", b) for b in ("matmul", "pad", "relu")] * 2


def test_a_rule_visits_the_blocks_that_exist_when_it_starts() -> None:
    assert visited(RELU_PAD_MATMUL, copy_out) == [("copy_out", b) for b in ("matmul", "pad", "relu")]
    assert visited(RELU_PAD_MATMUL, copy_out, look)[3:] == [
        ("look", b) for b in ("matmul.E.write", "matmul", "pad", "relu")
    ]
    assert visited(RELU_PAD_MATMUL, drop, look)[3:] == [("look", "matmul")]


def test_facts_pass_from_rule_to_rule() -> None:
    @ms.rule
    def leave(sch: ms.Schedule, block: ms.BlockRV) -> None:
        """Leave a note."""
        sch.add_fact(block, 42)

    seen: list[int | None] = []

    @ms.rule
    def take(sch: ms.Schedule, block: ms.BlockRV) -> None:
        """Take the note."""
        seen.append(sch.facts(block, int))

    FromRules((leave, take)).run(schedule())
    assert seen == [42, 42]


# --- saying so


def test_explaining_outcomes() -> None:
    runs = [
        (
            Outcome("tile", "dense", None),
            Outcome("inline", "dense", "it is a reduction"),
            Outcome("tile", "relu", "no"),
        ),
        (Outcome("tile", "dense", None), Outcome("inline", "dense", "it is an output"), Outcome("tile", "relu", "no")),
    ]
    assert explain(runs) == (
        "block dense\n"
        "    tile    applied\n"
        "    inline  not applied: it is a reduction  (in 1 of 2 sketches)\n"
        "    inline  not applied: it is an output  (in 1 of 2 sketches)\n"
        "block relu\n"
        "    tile  not applied: no\n"
        "rule inline never applied\n"
        "    dense  it is a reduction; or it is an output"
    )


def test_a_rule_that_is_never_used_is_named_with_every_reason() -> None:
    """A custom rule that is silently ignored is a wasted day."""
    text = ms.space(program(DENSE_RELU), rules=[drop]).explain()
    assert text.endswith("rule drop never applied\n    relu   it stays\n    dense  it stays")


def test_a_rule_that_met_no_block_is_named() -> None:
    assert explain([()], [drop]) == "rule drop never applied: there was no block to try it on"


# --- some blocks only


def test_a_rule_for_some_blocks() -> None:
    runs = FromRules((look.only("dense", "x*"), look.except_for("den*"))).run(schedule())
    assert [(o.block, o.reason) for o in runs] == [
        ("relu", "it is left out: the rule is only for `dense` and `x*`"),
        ("dense", None),
        ("relu", None),
        ("dense", "it is left out: the rule is for blocks except `den*`"),
    ]


def test_a_name_of_no_block_is_pointed_out() -> None:
    text = ms.space(program(DENSE_RELU), rules=[look.only("densee"), look.except_for("re*")]).explain()
    assert "rule look: no block is named `densee`" in text
    assert "`re*`" not in text.splitlines()[-1]


@pytest.mark.parametrize("patterns", [(), (3,), ("",)])
def test_patterns_are_names(patterns: tuple[Any, ...]) -> None:
    with pytest.raises(ms.RuleError, match=r'rule look.only takes names of blocks such as "dense" or "conv\*"'):
        look.only(*patterns)


@ms.rule
def calls_itself(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Never end."""
    outcome: Any = calls_itself(sch, block)
    return outcome  # type: ignore[no-any-return]


def test_a_rule_that_calls_itself_is_told_once() -> None:
    sch = schedule(DENSE_RELU)
    with pytest.raises(RecursionError) as caught:
        calls_itself.apply(sch, sch.get_block("dense"))
    assert len(caught.value.__notes__) == 1
    assert caught.value.__notes__[0].startswith("in rule calls_itself, on block `dense` of dense_relu[")
