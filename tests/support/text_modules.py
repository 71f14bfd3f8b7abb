"""Modules in text of a few lines, and what they do."""

from __future__ import annotations

import re

import pytest

import metasched as ms
from metasched.space.text.modules import TextModule
from tests.support.programs import DENSE_RELU
from tests.support.schedules import program

PROGRAM = program(DENSE_RELU)

SPLIT = """
module halve[by=2](loop):
    outer, inner = split(loop, [None, by])
    return outer, inner
"""


def whole(body: str, *helpers: str) -> TextModule:
    """A module of the whole program, with `d` its reduction and `i, j, k` the loops around it, where they are used."""
    head = 'module main():\n    d = get_block("dense")\n'
    head += "    i, j, k = get_loops(d)\n" if re.search(r"\b[ijk]\b", body) else "    _loops = get_loops(d)\n"
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    module = ms.parse_module("\n".join([*helpers, head + lines]), "main")
    assert isinstance(module, TextModule)
    return module


def run(body: str, *helpers: str, seed: int = 0) -> ms.Schedule:
    sch = ms.Schedule(PROGRAM, seed=seed)
    whole(body, *helpers)(sch)
    return sch


def steps(body: str, *helpers: str) -> list[str]:
    """The lines of the trace, less those that only look."""
    lines = [line.strip() for line in str(run(body, *helpers).trace).splitlines()[1:]]
    return [line for line in lines if "get_" not in line]


def wrong(body: str, *helpers: str) -> tuple[ms.ScheduleError, list[str]]:
    with pytest.raises(ms.ScheduleError) as caught:
        run(body, *helpers)
    return caught.value, caught.value.__notes__
