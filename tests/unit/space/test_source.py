"""What makes a space answers for itself: what is given, which traces it holds, what it is called and made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import metasched as ms
from metasched.space.conditions import source_of
from metasched.space.registry import resolve
from metasched.space.source import FromModule, FromRules
from metasched.space.traced import FromTrace
from metasched.support.fingerprint import fingerprint
from tests.support.schedules import program


def tiled(sch: ms.Schedule) -> None:
    i, j, _ = sch.get_loops(sch.get_block("dense"))
    sch.split(i, sch.sample_tile(i, name="rows"))
    sch.split(j, sch.sample_tile(j, name="columns"))


def trace() -> ms.Trace:
    sch = ms.Schedule(program(), seed=3)
    tiled(sch)
    return sch.trace


@ms.rule
def leave(sch: ms.Schedule, block: ms.BlockRV, *, size: int = 3) -> ms.Skip:
    """Do nothing."""
    return ms.skip(f"{size}")


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (leave, "the rules leave"),
        ([leave, "unroll"], "the rules leave, unroll"),
        ([], "the rules of an empty list"),
        (tiled, "the module tiled"),
        (trace(), "a trace of 6 instructions with 0 holes"),
        (ms.condition(tiled, {"rows": [None, 4]}), 'the module tiled, where "rows" := [_, 4]'),
    ],
)
def test_what_it_is_in_words(described: object, said: str) -> None:
    assert source_of(described).describe() == said  # type: ignore[arg-type]


def test_only_what_nobody_asked_for_is_by_default() -> None:
    assert source_of(None).by_default
    assert not any(source_of(d).by_default for d in ("cpu", leave, tiled, trace()))
    assert [r.name for r in source_of(None).rules] == [r.name for r in resolve("cpu")]


def test_a_space_is_described_by_what_makes_it() -> None:
    space = ms.space(program(), ms.condition(tiled, {"rows": [None, 4]}))
    assert source_of(space) is space.source
    assert source_of(space.source) is space.source
    assert space.given == {"rows": (None, 4)}


def test_which_traces_it_holds() -> None:
    found = trace()
    other = found.with_decisions({"rows": [None, 1], "columns": [None, 2]})
    assert found.decisions["rows"] != other.decisions["rows"]
    assert FromModule(tiled).holds(other)
    assert FromRules(()).holds(other)
    assert not source_of(ms.condition(tiled, {"rows": found.decisions["rows"]})).holds(other)
    holed = found.with_decisions({"rows": None})
    assert FromTrace(holed).holds(found)
    assert not FromTrace(holed).holds(other), "it decides the columns otherwise"
    assert not FromTrace(holed).holds(ms.Schedule(program()).trace), "it has other steps"
    twice = ms.condition(ms.condition(holed, {"rows": [None, 1]}), {"rows": [None, 1]})
    assert not source_of(twice).holds(found)


def test_conditions_in_one_step_or_two_are_one_space() -> None:
    once = source_of(ms.condition(tiled, {"rows": [None, 4], "columns": [None, 2]}))
    twice = source_of(ms.condition(ms.condition(tiled, {"rows": (None, 4)}), {"columns": [None, 2]}))
    assert once.ingredients() == twice.ingredients()
    assert once.ingredients() != source_of(ms.condition(tiled, {"rows": [None, 4]})).ingredients()
    assert source_of(ms.condition(tiled, {})).ingredients() == FromModule(tiled).ingredients()


def test_what_rules_are_made_of() -> None:
    base = leave.ingredients()
    assert leave.named("other").ingredients() != base
    assert leave(size=4).ingredients() != base
    assert leave.only("dense").ingredients() != base
    assert leave.ingredients() == base
    one, other = ms.choice("one", leave, None), ms.choice("one", leave)
    assert one.fn.ingredients() != other.fn.ingredients()  # type: ignore[union-attr]
    held, not_held = ms.when(lambda _: True, leave), ms.when(lambda _: False, leave)
    assert held.fn.ingredients() != not_held.fn.ingredients()  # type: ignore[union-attr]


TEXT = """\
module outer(block):
    inner(block)

module inner(block):
    i, *_ = get_loops(block)
    unroll(i)

module unused(_block):
    skip "it is not called"
"""


def test_a_module_in_text_is_made_of_its_text_and_of_what_it_calls(tmp_path: Path) -> None:
    def ingredients(text: str) -> str:
        (tmp_path / "m.ms").write_text(text)
        module = ms.load_module(f"{tmp_path}/m.ms::outer")
        return fingerprint(module)

    base = ingredients(TEXT)
    assert ingredients(f"\n# a comment\n{TEXT}") == base
    assert ingredients(TEXT.replace("    inner(block)", '    "What it is for."\n    inner(block)')) == base
    assert ingredients(TEXT.replace("it is not called", "it is not")) == base
    assert ingredients(TEXT.replace("unroll(i)", "parallel(i)")) != base
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "m.ms").write_text(TEXT)
    assert fingerprint(ms.load_module(f"{other}/m.ms::outer")) == base


def test_where_a_predicate_stands_is_no_part_of_it() -> None:
    def made(text: str) -> str:
        space: dict[str, object] = {}
        exec(compile(text, "<mine>", "exec"), {"ms": ms, "leave": leave}, space)
        return fingerprint(space["held"])

    text = "held = ms.when(lambda info: info.reduces, leave)"
    assert made(text) == made(f"\n\n{text}")
