from __future__ import annotations

import io

from metasched.cli.command import Console
from metasched.cli.main import main
from metasched.cli.rules import description, summary
from metasched.schedule.schedule import Schedule
from metasched.schedule.values import BlockRV
from metasched.space.rule import rule


@rule
def nothing(sch: Schedule, block: BlockRV, *, lanes: int = 16) -> None:
    """Do nothing.

    At all.
    """


def test_a_rule_is_summed_up_by_its_first_sentence() -> None:
    assert summary(nothing) == "Do nothing."
    assert summary((nothing, nothing)) == "preset: nothing, nothing"


def test_a_description_has_documentation_settings_and_source() -> None:
    text = description(nothing(lanes=8))
    assert "At all." in text
    assert "lanes=8" in text
    assert "def nothing(" in text
    assert description((nothing,)) == "nothing  Do nothing."


def listed(*arguments: str) -> str:
    out = io.StringIO()
    assert main(["rules", *arguments], Console(out, io.StringIO())) == 0
    return out.getvalue()


def test_the_installed_rules_are_listed() -> None:
    text = listed()
    assert "multi_level_tiling" in text
    assert "preset: inline, " in text
    assert '"name": "inline"' in listed("list", "--json")


def test_a_rule_is_shown_with_its_source() -> None:
    assert "def inline(" in listed("show", "inline")
