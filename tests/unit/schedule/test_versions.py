"""Primitives change their meaning by a new version; old traces are upgraded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import metasched as ms
import metasched.schedule.primitives as package
from metasched.lang.instructions import Instruction
from metasched.schedule import primitive as declaring
from metasched.schedule import trace_python_reader, versions
from metasched.schedule.context import Context
from metasched.schedule.primitive import declaration_of, primitive
from tests.support.schedules import fails, program

TOY = '''
from dataclasses import replace
from metasched.ir import query
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Annotation
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName, Number
from metasched.schedule.primitive import primitive


def from_1(old):
    """Version 1 took the limit's logarithm, by position."""
    return replace(old, args=old.args[:1], kwargs=(("bound", 2 ** old.args[1]),))


def from_2(old):
    """Version 2 called it `bound`."""
    return replace(old, kwargs=(("limit", dict(old.kwargs)["bound"]),))


@primitive(version=3, upgrades={1: from_1, 2: from_2})
def toy_limit(ctx: Context, loop: LoopName, limit: Number = 16) -> None:
    """Note a limit on a loop."""
    found = ctx.loop("toy_limit", loop)
    note = Annotation("unroll_limit", const(limit))
    ctx.func = query.replace_stmt(ctx.func, found, replace(found, annotations=(note,)))
'''

HEAD = """\
trace 1 of dense_relu[N=11, M=9, K=7]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_limit.py").write_text(TOY)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    with_toy = declaring.registry.__wrapped__()
    for reader in (versions, trace_python_reader):
        monkeypatch.setattr(reader, "registry", lambda: with_toy)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("line", ["toy_limit(i, 3)", "toy_limit@2(i, bound=8)", "toy_limit@3(i, limit=8)"])
def test_every_version_means_the_same(line: str) -> None:
    trace = ms.parse_trace(HEAD + f"    {line}\n")
    sch = trace.apply_to(program())
    assert "@unroll_limit(8)" in str(sch)
    assert str(sch.trace).splitlines()[-1] == "    toy_limit@3(i, limit=8)"
    assert trace.canonical() == sch.trace.canonical()
    assert trace.problems(program()) == ()
    assert not trace.diff(sch.trace)
    assert sch.trace.apply_to(program()).trace == sch.trace
    assert trace.as_python().splitlines()[-1] == "    sch.toy_limit(i, limit=8)"
    assert ms.Trace.from_json(trace.as_json()) == trace


@pytest.mark.usefixtures("toy")
def test_a_version_that_is_not_known() -> None:
    with fails("toy_limit: version 4 is not known; this metasched has version 3"):
        ms.parse_trace(HEAD + "    toy_limit@4(i)\n").apply_to(program())


def test_a_version_without_an_upgrade() -> None:
    def only_two(ctx: Context) -> None:
        """Do nothing."""

    declared = declaration_of(primitive(version=3, upgrades={2: lambda old: old})(only_two))
    assert list(declared.upgrades) == [2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "registry", lambda: {"only_two": declared})
        assert versions.current_form(Instruction("only_two", version=2))[1].version == 3
        with fails("only_two: version 1 is not known; this metasched has version 3"):
            versions.current_form(Instruction("only_two"))


@pytest.mark.parametrize("old", [0, 3, 4])
def test_upgrades_are_of_older_versions(old: int) -> None:
    def wrong(ctx: Context) -> None:
        """Do nothing."""

    with pytest.raises(TypeError, match=f"primitive wrong: version 3 has no upgrade of version {old}"):
        declaration_of(primitive(version=3, upgrades={old: lambda i: i})(wrong))


def test_normal_form_keeps_what_it_does_not_know() -> None:
    unknown: Any = Instruction("no_such_thing", ("a",))
    assert versions.normal_form(unknown) is unknown
    too_many = Instruction("get_block", ("a", "b"))
    assert versions.normal_form(too_many) is too_many
    written = Instruction("sample_tile", ("i",), (("innermost", 64), ("parts", 3)), random=True)
    assert versions.normal_form(written) == replace(written, kwargs=(("parts", 3),))
