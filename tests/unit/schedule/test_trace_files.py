"""Traces in files: a file's name says its form, and a file that is something else is told as what it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from metasched.errors import LanguageError
from metasched.schedule.trace import Trace
from metasched.schedule.trace_files import form_of, load_trace
from tests.support.schedules import loops_of, program, schedule


def made() -> Trace:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    sch.split(i, sch.sample_tile(i))
    return sch.trace


TEXT, JSON, PYTHON = str(made()), made().as_json(), made().as_python()
CONFLICT = TEXT.replace("    i", "<<<<<<< HEAD\n    i", 1) + "=======\n    x = 3\n>>>>>>> mine\n"


@pytest.mark.parametrize("name", ["t.trace", "t.json", "t.py", "t", "t.txt"])
def test_what_is_written_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(form_of(path).write(made(), program()))
    assert load_trace(path) == made()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.trace", JSON, "1:1: this is a trace as JSON, and `t.trace` is read as text, as it is named"),
        ("t.trace", JSON, "hint: name it `t.json`"),
        ("t.trace", PYTHON, "1:1: this is a trace as Python, and `t.trace` is read as text"),
        ("t.trace", PYTHON, "hint: name it `t.py`"),
        ("t.json", TEXT, "1:1: this is a trace as text, and `t.json` is read as JSON"),
        ("t.json", TEXT, "hint: name it `t.trace`"),
        ("t.json", PYTHON, "hint: name it `t.py`"),
        ("t.py", TEXT, "hint: name it `t.trace`"),
        ("t.py", JSON, "hint: name it `t.json`"),
        (
            "t.trace",
            TEXT + TEXT,
            f"{TEXT.count(chr(10)) + 1}:1: a second trace begins here; one file has one trace",
        ),
        ("t.trace", TEXT + TEXT, "hint: put each in a file of its own"),
        ("t.trace", CONFLICT, "3:1: this is a mark of a merge conflict; one file has one trace"),
        ("t.json", "<<<<<<< HEAD\n" + JSON, "1:1: this is a mark of a merge conflict"),
        ("t.py", PYTHON + "=======\n", "this is a mark of a merge conflict"),
        ("t.trace", TEXT + "    x = = 3\n", "6:"),
        ("t.json", "[]", 'a trace is an object with the key "metasched_trace"'),
    ],
)
def test_a_file_that_is_something_else(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(LanguageError, match=re.escape(message)) as info:
        load_trace(path)
    assert str(path) in str(info.value)
