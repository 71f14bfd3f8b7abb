"""Modules in text on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import run

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "tiled_dense.ms")
SMALL = ("-D", "N=64", "-D", "M=32", "-D", "K=16")


def test_a_module_of_a_whole_program_is_a_space() -> None:
    status, out, _ = run("show", EXAMPLE, *SMALL, "--space", "--module", f"{EXAMPLE}::whole")
    assert status == 0
    assert out == ('dense_relu[N=64, M=32, K=16]: 2 sketches\nchoice "whole/tile_rows(dense)/threads": 2 options\n')


def test_a_module_of_a_block_is_a_rule() -> None:
    for arguments in (("--module", f"{EXAMPLE}::tile_rows"), ("--rules", f"+{EXAMPLE}::tile_rows")):
        status, out, _ = run("show", EXAMPLE, *SMALL, "--space", *arguments)
        assert status == 0
        assert "tile_rows  not applied: it is not a reduction" in out


def test_rules_show_a_file() -> None:
    status, out, _ = run("rules", "show", f"{EXAMPLE}::in_lanes")
    assert status == 0
    assert "module in_lanes[lanes=8](block):\n    *_outer, innermost = get_loops(block)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--module", f"{EXAMPLE}::hole"),
            "there is no module `hole` here: there is `tile_rows`, `in_lanes` and `whole`",
        ),
        (("--module", "none.ms"), "none.ms: No such file or directory"),
        (
            ("--rules", "cpu", "--module", EXAMPLE),
            "--module and --rules both say what to search\n  hint: give one",
        ),
        (("--rules", f"+{EXAMPLE}::whole"), "takes no block, and a rule takes one block"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str) -> None:
    status, _, err = run("show", EXAMPLE, *SMALL, "--space", *arguments)
    assert status != 0
    assert message in err


def test_a_step_that_is_not_legal_shows_the_line_and_the_program(tmp_path: Path) -> None:
    path = tmp_path / "twice.ms"
    path.write_text("module twice(block):\n    parallel(get_loops(block)[0])\n    parallel(get_loops(block)[0])\n")
    status, _, err = run("show", EXAMPLE, *SMALL, "--space", "--rules", f"+{path}")
    assert status != 0
    assert f"{path}:3:5: in module twice\n        parallel(get_loops(block)[0])\n        ^" in err
    assert "parallel i_relu in 64:" in err
