from __future__ import annotations

import io
from pathlib import Path

import pytest

from metasched.cli.command import Console
from metasched.cli.main import main
from metasched.cli.rules import description, parameter_meanings, summary
from metasched.schedule.trace import Schedule
from metasched.schedule.values import BlockRV
from metasched.space.rule import rule
from tests.support.command_line import run
from tests.support.installed_rules import installed_rules


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
    assert "preset: winograd, padding_terms, scans, blocked_sums, unpacking, products_in_blocks, row_parts, " in text
    assert '"name": "inline"' in listed("list", "--json")


def test_a_rule_is_shown_with_its_source() -> None:
    assert "def inline(" in listed("show", "inline")


@rule
def documented(sch: Schedule, block: BlockRV, *, lanes: int = 16, limit: int = 4, quiet: bool = False) -> None:
    """Do nothing, `quiet` or not.

    Args:
        lanes: how wide it
            does nothing.
        limit: how often.
    """


def test_parameters_are_listed_with_what_they_mean() -> None:
    assert parameter_meanings(documented) == {
        "lanes": "how wide it does nothing.",
        "limit": "how often.",
        "quiet": "Do nothing, `quiet` or not.",
    }
    assert "    lanes=16     how wide it does nothing." in description(documented)
    assert "test_rules.py:" in description(documented)


def test_a_rule_of_a_file_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text('import metasched as ms\n\n\n@ms.rule\ndef one(sch, block):\n    """Do one thing."""\n')
    Path("tile.ms").write_text("module tile(block):\n    i, j = get_loops(block)\n    parallel(i)\n")
    text = listed("show", "my.py:one")
    assert text.startswith("one  (my.py:one)\n\nDo one thing.\n\nSource: my.py:4")
    assert "def one(sch, block):" in text
    assert "module tile(block):" in listed("show", "tile.ms")


def test_a_rule_that_is_not_there_is_told_with_what_may_be_meant() -> None:
    status, _, err = run("rules", "show", "inlin")
    assert status == 2
    assert "no rule or preset `inlin` is installed\n  hint: did you mean `inline`" in err


def test_a_package_that_cannot_be_loaded_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[metasched.rules]\nlost = nobody_has_this:lost\nleft = left_at_once:left\n")
    (tmp_path / "left_at_once.py").write_text("import sys\n\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = listed()
    assert "! the rule `lost` of broken 1.0 cannot be loaded" in text
    assert "! the rule `left` of broken 1.0 cannot be loaded (left_at_once:left): SystemExit: 3" in text
    assert "multi_level_tiling" in text


def test_every_parameter_of_the_shipped_rules_is_explained() -> None:
    unexplained = {
        f"{name}.{parameter}"
        for name, shipped in installed_rules().items()
        for parameter in shipped.parameters
        if parameter not in parameter_meanings(shipped)
    }
    assert not unexplained
