"""The script by which a shell completes commands."""

from __future__ import annotations

import io
import subprocess

import pytest

from metasched.cli.command import Console
from metasched.cli.main import main

# Words so far, the last to be completed; what bash offers.
ASK = """
source /dev/stdin <<< "$SCRIPT"
COMP_WORDS=($WORDS)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shtab_metasched
echo "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script() -> str:
    out = io.StringIO()
    assert main(["completion", "bash"], Console(out, out)) == 0
    return out.getvalue()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("metasched calib", "calibrate"),
        ("metasched tune --stra", "--strategy"),
        ("metasched net prof", "profile"),
        ("metasched net tune --bud", "--budget"),
    ],
)
def test_bash_completes_commands_and_options(script: str, words: str, offered: str) -> None:
    asked = subprocess.run(
        ["bash", "-c", ASK], env={"SCRIPT": script, "WORDS": words}, capture_output=True, text=True, check=True
    )
    assert asked.stdout.split() == [offered]
