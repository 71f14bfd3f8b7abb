"""The script by which a shell completes commands."""

from __future__ import annotations

import io
import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

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


COMPLETED = pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("metasched calib", "calibrate"),
        ("metasched tune --stra", "--strategy"),
        ("metasched net prof", "profile"),
        ("metasched net tune --bud", "--budget"),
    ],
)


def script_for(shell: str) -> str:
    out = io.StringIO()
    assert main(["completion", shell], Console(out, out)) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def script() -> str:
    return script_for("bash")


@COMPLETED
def test_bash_completes_commands_and_options(script: str, words: str, offered: str) -> None:
    asked = subprocess.run(
        ["bash", "-c", ASK], env={"SCRIPT": script, "WORDS": words}, capture_output=True, text=True, check=True
    )
    assert asked.stdout.split() == [offered]


@pytest.mark.skipif(shutil.which("fish") is None, reason="the shell fish is not installed")
def test_fish_completes_commands_options_and_files(tmp_path: Path) -> None:
    (tmp_path / "script.fish").write_text(script_for("fish"))
    (tmp_path / "dense.ms").touch()
    lines = [
        "metasched calib",
        "metasched net tune --objective sum --tri",
        "metasched show dens",
        "metasched db merge --d",
    ]
    asked = "; ".join(f"complete -C '{line}'" for line in lines)
    done = subprocess.run(
        ["fish", "-N", "-c", f"source script.fish; {asked}"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert offered == ["calibrate", "--trials", "dense.ms", "--db", "--dry-run"]
    assert not done.stderr


def test_the_script_for_fish_has_a_line_for_every_command_and_names_no_placeholder() -> None:
    script = script_for("fish")
    assert "-n '__metasched_after net' -a tune -d" in script
    assert "-n '__metasched_in db merge' -l dry-run -d" in script
    assert "%(" not in script


@pytest.mark.skipif(shutil.which("zsh") is None, reason="the shell zsh is not installed")
def test_zsh_completes_what_is_typed_at_its_prompt(tmp_path: Path) -> None:
    (tmp_path / "script.zsh").write_text(script_for("zsh"))
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "HOME": str(tmp_path)})
    try:
        typed(terminal, 'PROMPT=; autoload -Uz compinit && compinit -u; eval "$(<script.zsh)"; echo rea""dy\n', "ready")
        typed(terminal, "metasched calib\t", "metasched calibrate ")
        typed(terminal, "\x15metasched net tune --bud\t", "metasched net tune --budget ")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def typed(terminal: int, keys: str, expected: str, patience_s: float = 60.0) -> None:
    """Type at a terminal, and wait until what it shows has a text that is expected."""
    os.write(terminal, keys.encode())
    shown, until = "", time.monotonic() + patience_s
    while expected not in shown:
        assert time.monotonic() < until, f"{keys!r} showed {shown!r}"
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536).decode()
