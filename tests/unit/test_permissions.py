from __future__ import annotations

import re
from pathlib import Path

import pytest

import metasched as ms
from metasched.ir import query
from metasched.permissions import BY_DEFAULT, NOTHING, Allowed, Permission, sums_products_of_halves
from metasched.search.task import Task
from metasched.space.rule import Rule
from tests.support.targets import AVX512

MATMUL = """
program product(A: {0}[16, 32], B: {0}[32, 16]) -> C: f32[16, 16]:
    product: C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
"""
DIVISION = "program scaled(A: f32[8, 8], B: f32[8]) -> C: f32[8, 8]:\n    scaled: C[i, j] = A[i, j] / B[i]\n"
SCALED = ms.parse_program(DIVISION)
FAST = 'trace 1 of scaled:\n    scaled = get_block("scaled")\n    annotate(scaled, "fastmath", True)\n'


@ms.rule
def fast(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Fast arithmetic, where it is allowed."""
    if not sch.allows("fastmath"):
        return ms.skip("fast arithmetic is not allowed")
    sch.annotate(block, "fastmath", True)
    return None


@ms.rule
def smuggled(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Fast arithmetic, whatever the caller says."""
    sch.annotate(block, "fastmath", True)


def test_a_set_allows_what_it_names_and_nothing_else() -> None:
    assert Allowed.of(None) == BY_DEFAULT
    assert Allowed.of(set()) == NOTHING
    assert Allowed.of({"winograd", "fastmath"}).names == {Permission.FASTMATH, Permission.WINOGRAD}
    assert not Allowed.of({"fastmath"}).half_denormals
    assert Allowed.of(BY_DEFAULT) is BY_DEFAULT


@pytest.mark.parametrize("allow", [None, set(), {"fastmath"}, {"winograd", "flush_denormals"}])
def test_its_text_reads_back(allow: set[str] | None) -> None:
    assert Allowed.parse(str(Allowed.of(allow))) == Allowed.of(allow)


@pytest.mark.parametrize(
    ("allow", "message"),
    [
        ({"fast_math"}, "nothing of the name 'fast_math' can be allowed\n  hint: did you mean `fastmath`?"),
        ({"luck"}, "hint: there are `fastmath`, `flush_denormals` and `winograd`"),
        ({3}, "nothing of the name 3 can be allowed"),
        ("winograd", '`allow` is a set of names, such as {"winograd"}'),
        ("", """such as {"fastmath"}, not ''\n  hint: there are `fastmath`, `flush_denormals` and `winograd`"""),
        ("all", """such as {"fastmath"}, not 'all'\n  hint: there are `fastmath`, `flush_denormals` and `winograd`"""),
        (7, '`allow` is a set of names, such as {"fastmath"}, not 7'),
    ],
)
def test_what_is_no_set_of_permissions(allow: object, message: str) -> None:
    with pytest.raises(ms.MetaschedError, match=re.escape(message)):
        Allowed.of(allow)  # type: ignore[arg-type]


@pytest.mark.parametrize(("dtype", "halves"), [("bf16", True), ("f16", True), ("f32", False), ("f64", False)])
def test_products_of_halves_may_flush_denormals_unless_forbidden(dtype: str, halves: bool) -> None:
    program = ms.parse_program(MATMUL.format(dtype))
    for allow, expected in ((None, halves), (set(), False), ({"flush_denormals"}, True)):
        sch = ms.Schedule(program, allow=allow)
        block = sch.get_block("product")
        assert sums_products_of_halves(query.find_block(sch.func, "product")) == halves
        assert sch.allows("flush_denormals", block) == expected
        assert sch.allows("flush_denormals") == (allow == {"flush_denormals"})
        assert (Permission.FLUSH_DENORMALS in Allowed.of(allow).in_program(program.func)) == expected


def test_a_schedule_says_what_is_allowed() -> None:
    sch = ms.Schedule(SCALED, allow={"fastmath"})
    assert sch.allows("fastmath")
    assert not sch.allows("winograd")
    assert sch.fork(sch.handler).allows("fastmath")
    with pytest.raises(ms.MetaschedError, match="did you mean `fastmath`"):
        sch.allows("fastmth")


def test_a_trace_shows_what_its_steps_need() -> None:
    trace = ms.parse_trace(FAST)
    assert trace.permissions == {Permission.FASTMATH}
    assert ms.parse_trace(FAST.replace("True", "False")).permissions == frozenset()
    named = FAST.replace('"fastmath", True', 'key="fastmath", value=True')
    assert ms.parse_trace(named).permissions == {Permission.FASTMATH}


def test_rules_ask_and_the_space_follows() -> None:
    assert "fastmath" not in str(ms.space(SCALED, [fast])[0].trace)
    assert "fast arithmetic is not allowed" in ms.space(SCALED, [fast]).explain()
    assert "fastmath" in str(ms.space(SCALED, [fast], allow={"fastmath"})[0].trace)


def test_a_rule_in_text_asks_too() -> None:
    text = """\
module quick(b):
    if allows("{}", b):
        annotate(b, "fastmath", True)
    else:
        skip "no"
"""
    rule = ms.parse_module(text.format("fastmath"))
    assert isinstance(rule, Rule)
    assert "fastmath" in str(ms.space(SCALED, [rule], allow={"fastmath"})[0].trace)
    assert "annotate" not in str(ms.space(SCALED, [rule])[0].trace)
    with pytest.raises(ms.LanguageError, match="did you mean `fastmath`"):
        ms.parse_module(text.format("fastmth"))


def test_no_rule_takes_what_is_not_allowed() -> None:
    with pytest.raises(ms.ScheduleError, match='"fastmath" lets results differ, and is not allowed') as caught:
        len(ms.space(SCALED, [smuggled]))
    assert "--allow fastmath" in str(caught.value)
    assert len(ms.space(SCALED, [smuggled], allow={"fastmath"})) == 1
    sch = ms.Schedule(SCALED)
    smuggled(sch, sch.get_block("scaled"))  # whoever calls it by hand consents


def test_to_give_a_module_or_a_trace_is_consent() -> None:
    def module(sch: ms.Schedule) -> None:
        sch.annotate(sch.get_block("scaled"), "fastmath", True)

    for described in (module, ms.parse_trace(FAST)):
        assert ms.space(SCALED, described)[0].trace.permissions == {Permission.FASTMATH}
    assert ms.compile(SCALED, trace=ms.parse_trace(FAST)).trace.permissions == {Permission.FASTMATH}
    assert ms.compile(SCALED, trace=ms.parse_trace(FAST), allow={"fastmath"})
    with pytest.raises(ms.MetaschedError, match='the trace lets results differ by "fastmath"'):
        ms.compile(SCALED, trace=ms.parse_trace(FAST), allow=set())


def test_a_space_keeps_what_it_allows_unless_told_otherwise() -> None:
    space = ms.space(SCALED, [fast], allow={"fastmath"})
    assert Task(SCALED, space, AVX512).allowed == space.allowed
    assert Task(SCALED, space, AVX512).space.allowed == space.allowed
    assert Task(SCALED, space, AVX512, allow=set()).space.allowed == NOTHING
    assert space.resized(7).conditioned({}).allowed == space.allowed


def test_what_is_allowed_is_part_of_the_fingerprint() -> None:
    allowed = (None, set(), {"fastmath"}, {"winograd"}, {"fastmath", "winograd"})
    assert len({Task(SCALED, "cpu", AVX512, allow=allow).fingerprint for allow in allowed}) == 5


def test_records_are_taken_by_those_who_allow_what_they_need(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/r.db"
    quick = ms.tune(SCALED, 1, db=db, rules=[fast], allow={"fastmath"}, progress=False)
    assert quick.trace.permissions == {Permission.FASTMATH}
    assert quick.report.best.permissions == {Permission.FASTMATH}
    assert ms.compile(SCALED, db=db, allow={"fastmath", "winograd"}).trace == quick.trace
    for allow in (None, set(), {"winograd"}):
        try:
            assert not ms.compile(SCALED, db=db, allow=allow).trace.permissions
        except ms.NoRecord as error:
            assert allow is None or "where no more is allowed than" in str(error)
