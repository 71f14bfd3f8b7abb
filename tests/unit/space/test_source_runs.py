from __future__ import annotations

from collections import Counter

import metasched as ms
from metasched.space.registry import RuleItem
from tests.support.programs import DENSE_RELU
from tests.support.schedules import program


def counting(calls: Counter[str], name: str, *options: str) -> ms.Rule:
    """A rule for the block `dense` that counts its calls and takes a choice, if there are options."""

    @ms.rule
    def counted(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
        """Count."""
        if sch.describe(block).name != "dense":
            return ms.skip("it is not dense")
        calls[name] += 1
        if options:
            sch.choose("how", options)
        sch.annotate(sch.get_loops(block)[0], "unroll_limit", 16)
        return None

    return counted.named(name)


def test_rules_before_a_choice_run_once_for_all_its_options() -> None:
    calls: Counter[str] = Counter()
    rules: list[RuleItem] = [
        counting(calls, "early"),
        counting(calls, "choice", "a", "b", "c"),
        counting(calls, "late"),
    ]
    space = ms.space(program(DENSE_RELU), rules=rules)
    assert len(space) == 3
    assert calls == {"early": 1, "choice": 3, "late": 3}


def test_sketches_are_those_of_whole_runs() -> None:
    calls: Counter[str] = Counter()
    rules: list[RuleItem] = [counting(calls, "one", "a", "b"), "cpu", counting(calls, "two", "c", "d")]
    space = ms.space(program(DENSE_RELU), rules=rules)
    for sketch in space:
        alone = ms.space(program(DENSE_RELU), rules=rules).conditioned(
            {address: decision for address, decision in sketch.structure.items() if isinstance(decision, str)}
        )
        assert str(alone[0].trace) == str(sketch.trace)
        assert alone[0].func == sketch.func
        assert alone[0].constraints == sketch.constraints


def test_facts_of_one_option_are_not_seen_under_another() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Left:
        how: str

    @ms.rule
    def leave(sch: ms.Schedule, block: ms.BlockRV) -> None:
        """Choose, and leave a fact of one option only."""
        if sch.choose("how", ["a", "b"]) == "a":
            sch.add_fact(block, Left("a"))

    seen = []

    @ms.rule
    def read(sch: ms.Schedule, block: ms.BlockRV) -> None:
        """Read the fact."""
        seen.append(sch.facts(block, Left))

    assert len(ms.space(program(DENSE_RELU), rules=[leave.only("dense"), read.only("dense")])) == 2
    assert seen == [Left("a"), None]
