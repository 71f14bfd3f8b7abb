from __future__ import annotations

import numpy as np
import pytest

from metasched.errors import LanguageError, ScheduleError
from metasched.lang.instructions import HOLE, Decision
from metasched.schedule.handlers import Policy, Repair
from metasched.schedule.trace import Schedule, Trace
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL, TWO
from tests.support.schedules import checked, fails, lines, loops_of, program, schedule

TEXT = """\
trace 1 of dense_relu[N=11, M=9, K=7]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
    t0, t1 ~ sample_tile(i) @ "tile(dense)/i" := [_, 4]
    i0, i1 = split(i, [t0, t1])
    t2 ~ sample_categorical([4, 8]) @ "tile(dense)/lanes" := 8
    fusion ~ choose("none", "outer") @ "fusion" := "outer"
    reorder(i0, j, k, i1)
    parallel(i0)
    annotate(dense, "unroll_limit", t2 * 2)
"""


def trace() -> Trace:
    return Trace.parse(TEXT)


# --- text


def test_text_and_back() -> None:
    assert str(trace()) == TEXT
    assert Trace.parse(str(trace())) == trace()
    assert len(trace()) == 9
    assert trace().decisions == {"tile(dense)/i": (HOLE, 4), "tile(dense)/lanes": 8, "fusion": "outer"}


def test_wrong_text_says_where() -> None:
    with pytest.raises(LanguageError, match="<trace>:2:"):
        Trace.parse("trace 1 of dense_relu[N=11, M=9, K=7]:\n    i = = 3\n")


def test_replaying_gives_the_same_trace_and_the_same_program() -> None:
    once = trace().apply_to(program())
    assert once.trace == trace()
    assert once.repairs == []
    twice = once.trace.apply_to(program())
    assert twice.func == once.func
    checked(once)


def test_labels_are_free() -> None:
    """A trace may be written by hand: what its handles are called changes nothing."""
    renamed = Trace.parse(TEXT.replace("i0", "outer").replace("i1", "inner").replace("t2", "lanes"))
    assert renamed != trace()
    assert renamed.canonical() == trace().canonical()
    assert hash(renamed.canonical()) == hash(trace().canonical())
    assert renamed.apply_to(program()).func == trace().apply_to(program()).func


def test_other_decisions_are_another_trace() -> None:
    other = trace().with_decisions({"tile(dense)/i": (HOLE, 3)})
    assert other.canonical() != trace().canonical()


def test_canonical_renames_locations_too() -> None:
    sch = schedule(RELU_PAD_MATMUL)
    loops_of(sch, "matmul")
    sch.compute_at(sch.get_block("pad"), sch.sample_compute_location(sch.get_block("pad")))
    assert sch.trace.canonical().canonical() == sch.trace.canonical()
    checked(sch)
    assert sch.trace.canonical().data.instructions[1].outputs == ("h1_0", "h1_1", "h1_2")


def test_a_canonical_trace_replays() -> None:
    assert trace().canonical().apply_to(program()).func == trace().apply_to(program()).func


# --- simplifying


def test_simplifying_drops_what_only_looks() -> None:
    sch = schedule()
    dense, relu = sch.get_block("dense"), sch.get_block("relu")
    i, *_ = sch.get_loops(dense)
    sch.get_loops(relu)
    sch.get_consumers(dense)
    sch.get_producers(relu)
    sch.sample_tile(i, name="unused")
    _, t = sch.sample_tile(i, parts=2)
    sch.split(i, [None, t])
    sch.choose("kept", [1, 2])
    short = sch.trace.simplified()
    assert [i.op for i in short.instructions] == ["get_block", "get_loops", "sample_tile", "split", "choose"]
    assert short.instructions[2].address == "i"
    assert short.apply_to(sch.program).func == sch.func
    assert short.simplified() == short


def test_simplifying_knows_that_a_label_is_made_again() -> None:
    """Generation asks for the same block over and over; the line in use is the last before the use."""
    sch = schedule()
    sch.get_loops(sch.get_block("dense"))
    i, j, k = sch.get_loops(sch.get_block("dense"))
    sch.reorder(j, i, k)
    assert [i.op for i in sch.trace.simplified().instructions] == ["get_block", "get_loops", "reorder"]
    assert sch.trace.simplified().apply_to(sch.program).func == sch.func


# --- decisions


def test_decisions_are_changed_by_address() -> None:
    changed = trace().with_decisions({"tile(dense)/i": (HOLE, 2), "fusion": None})
    assert changed.decisions == {"tile(dense)/i": (HOLE, 2), "tile(dense)/lanes": 8}
    assert lines(changed)[5] == 'fusion ~ choose("none", "outer") @ "fusion"'
    assert trace().decisions["tile(dense)/i"] == (HOLE, 4)
    assert trace().with_decisions({}) == trace()


def test_decisions_are_said_as_in_python() -> None:
    assert trace().with_decisions({"tile(dense)/i": [None, 2]}) == trace().with_decisions({"tile(dense)/i": (HOLE, 2)})
    text = 'trace 1 of p:\n    b = get_block("b")\n    l ~ sample_compute_location(b) @ "b" := root\n'
    assert str(Trace.parse(text).with_decisions({"b": "i_0"})) == text.replace("root", "i_0")
    with pytest.raises(ScheduleError, match=r'at "tile\(dense\)/j"\n  hint: did you mean `tile\(dense\)/i`'):
        trace().with_decisions({"tile(dense)/j": 1})


def test_decisions_may_be_numpy_s() -> None:
    given: dict[str, object] = {"tile(dense)/i": [None, np.int64(2)], "tile(dense)/lanes": np.int64(4)}
    changed = trace().with_decisions(given)
    assert changed.apply_to(program()).trace == changed == Trace.parse(str(changed))
    assert changed.apply_to(program(), Policy.REPAIR).repairs == []
    assert ":= [1, 8]" in str(trace().with_decisions({"tile(dense)/i": np.array([1, 8])}))
    hint = "a decision is a number, a text, or a list of numbers with None for what follows from the others"
    with fails('trace: what is given for "fusion": {1} is a set, and no decision', hint):
        trace().with_decisions({"fusion": {1}})


def test_decisions_at_an_address_that_is_not_there() -> None:
    with pytest.raises(
        ScheduleError,
        match=r'no random variable at "x"\n  hint: it has `tile\(dense\)/i`, `tile\(dense\)/lanes` and `fusion`',
    ):
        trace().with_decisions({"x": (HOLE, 2)})
    with pytest.raises(ScheduleError, match='it has no random variable at "tile/i"'):
        trace().with_decisions({"tile/i": (HOLE, 2)})


# --- policies


def test_strict_wants_every_decision() -> None:
    holes = trace().with_decisions({"tile(dense)/lanes": None})
    message = 'sample_categorical: no decision is given for "tile(dense)/lanes"'
    with fails(message, "replay with Policy.REPAIR to draw it, or search over it"):
        holes.apply_to(program())


TILES = "1 inner factor of 11, the innermost at most 64"


@pytest.mark.parametrize(
    ("op", "address", "decision", "text", "support"),
    [
        ("sample_tile", "tile(dense)/i", (HOLE, 12), "[_, 12]", TILES),
        ("sample_tile", "tile(dense)/i", (HOLE, 0), "[_, 0]", TILES),
        ("sample_tile", "tile(dense)/i", (HOLE, 2, 2), "[_, 2, 2]", TILES),
        ("sample_tile", "tile(dense)/i", (3, 4), "[3, 4]", TILES),
        ("sample_tile", "tile(dense)/i", 4, "4", TILES),
        ("sample_categorical", "tile(dense)/lanes", 6, "6", "one of 4, 8"),
        ("sample_categorical", "tile(dense)/lanes", True, "True", "one of 4, 8"),
        ("choose", "fusion", "inner", '"inner"', "one of 'none', 'outer'"),
    ],
)
def test_strict_wants_decisions_in_the_support(
    op: str, address: str, decision: Decision, text: str, support: str
) -> None:
    wrong = trace().with_decisions({address: decision})
    message = f'{op}: the decision {text} at "{address}" is not in the support ({support})'
    with fails(message, "replay with Policy.REPAIR to mend it"):
        wrong.apply_to(program())


def test_an_error_names_the_line() -> None:
    with pytest.raises(ScheduleError) as info:
        trace().with_decisions({"tile(dense)/i": (HOLE, 12)}).apply_to(program())
    assert info.value.line == 4
    assert TEXT.splitlines()[info.value.line - 1].strip().startswith("t0, t1 ~ sample_tile")


def test_strict_wants_the_program_of_the_trace() -> None:
    hint = "replay with Policy.REPAIR (--repair) to carry it over to another shape"
    made_for = "trace: it was made for dense_relu[N=11, M=9, K=7], and the program is "
    with fails(made_for + "dense_relu[N=12, M=9, K=7]", hint):
        trace().apply_to(program(N=12))
    with fails(made_for + "two[N=6]", hint):
        trace().apply_to(program(TWO))


def test_repair_mends_and_reports() -> None:
    wrong = trace().with_decisions({"tile(dense)/i": (HOLE, 40), "tile(dense)/lanes": 7, "fusion": "inner"})
    sch = wrong.apply_to(program(), Policy.REPAIR)
    assert sch.repairs == [
        Repair("tile(dense)/i", (HOLE, 40), (HOLE, 11)),
        Repair("tile(dense)/lanes", 7, 8),
        Repair("fusion", "inner", "none"),
    ]
    assert sch.trace.decisions == {"tile(dense)/i": (HOLE, 11), "tile(dense)/lanes": 8, "fusion": "none"}
    checked(sch)


def test_repair_draws_what_is_missing() -> None:
    holes = trace().with_decisions(dict.fromkeys(trace().decisions))
    assert holes.decisions == {}
    sch = holes.apply_to(program(), Policy.REPAIR, seed=3)
    assert [(r.address, r.before) for r in sch.repairs] == [(a, None) for a in trace().decisions]
    assert {r.address: r.after for r in sch.repairs} == sch.trace.decisions
    assert holes.apply_to(program(), Policy.REPAIR, seed=3).trace == sch.trace
    checked(sch)


def test_repair_carries_over_to_another_shape() -> None:
    sch = trace().apply_to(program(N=3), Policy.REPAIR)
    assert sch.repairs == [Repair("tile(dense)/i", (HOLE, 4), (HOLE, 3))]
    assert sch.trace.data.params == (("N", 3), ("M", 9), ("K", 7))
    checked(sch)


def test_repair_leaves_alone_what_fits() -> None:
    assert trace().apply_to(program(), Policy.REPAIR).repairs == []


def test_another_number_of_results() -> None:
    wrong = Trace.parse(TEXT.replace("i, j, k = get_loops", "i, j = get_loops").replace("j, k, i1", "j, i1"))
    hint = "`labels` has a name for each; a trace that is replayed was made for a program of another structure"
    with fails("get_loops: it gives 3 results here and the trace names 2", hint):
        wrong.apply_to(program())
    wrong = Trace.parse(TEXT.replace("t2 ~", "t2, t3 ~"))
    with fails("sample_categorical: it gives 1 integers and the trace names 2"):
        wrong.apply_to(program())


def test_a_handle_that_is_no_handle_of_that_kind() -> None:
    wrong = Trace.parse(TEXT.replace("parallel(i0)", "parallel(dense)"))
    with fails("parallel: `dense`, given for `loop`, is not a loop that an earlier line made"):
        wrong.apply_to(program())


def test_a_version_from_the_future() -> None:
    wrong = Trace.parse(TEXT.replace("parallel(i0)", "parallel@2(i0)"))
    assert "parallel@2(i0)" in str(wrong)
    with fails("parallel: version 2 is not known; this metasched has version 1"):
        wrong.apply_to(program())


# --- locations


@pytest.mark.parametrize("place", ["root", "inline", "i", "k"])
def test_locations_print_by_name(place: str) -> None:
    text = f"""\
trace 1 of relu_pad_matmul[N=4, K=11, M=3, L=8]:
    matmul = get_block("matmul")
    i, j, k = get_loops(matmul)
    pad = get_block("pad")
    loc ~ sample_compute_location(pad) @ "pad" := {_loop(place)}
    compute_at(pad, loc)
"""
    sch = Trace.parse(text).apply_to(program(RELU_PAD_MATMUL))
    assert str(sch.trace) == text
    checked(sch)
    names = sch.block_names()
    assert ("pad" in names) is (place != "inline")


def _loop(place: str) -> str:
    return {"i": "i_matmul", "k": "k_matmul"}.get(place, place)


# --- mutation


def test_mutating_moves_one_variable_within_its_support() -> None:
    rng = np.random.default_rng(0)
    seen: set[str] = set()
    current = trace()
    for _ in range(60):
        moved = current.mutate(rng, program())
        changed = {a for a, d in moved.decisions.items() if current.decisions[a] != d}
        assert len(changed) == 1
        assert "fusion" not in changed, "structure is not a trace's to mutate"
        seen |= changed
        assert moved.apply_to(program()).trace == moved
        current = moved
    assert seen == {"tile(dense)/i", "tile(dense)/lanes"}


def test_mutating_mends_what_depends_on_it() -> None:
    """A tile of a tile: the inner one has to follow when the outer one shrinks."""
    sch = Schedule(program(N=48))
    i, *_ = loops_of(sch, "dense")
    _, inner = sch.split(i, sch.sample_tile(i))
    sch.split(inner, sch.sample_tile(inner))
    start = sch.trace.with_decisions({"i": (HOLE, 48), "i_1": (HOLE, 48)})
    rng = np.random.default_rng(1)
    shrunk = 0
    for _ in range(40):
        moved = start.mutate(rng, sch.program)
        assert moved.apply_to(sch.program).trace == moved
        outer, nested = moved.decisions["i"], moved.decisions["i_1"]
        assert isinstance(outer, tuple)
        assert isinstance(nested, tuple)
        assert nested[1] <= outer[1]  # type: ignore[operator]
        shrunk += outer[1] < 48  # type: ignore[operator]
    assert shrunk


def test_nothing_to_mutate() -> None:
    sch = schedule(DENSE_RELU)
    sch.choose("only", [1, 2])
    with pytest.raises(ScheduleError) as info:
        sch.trace.mutate(np.random.default_rng(0), sch.program)
    assert info.value.op == "mutate"


def test_decisions_without_addresses_are_kept() -> None:
    """A line written by hand needs no address: it has the name of what it samples, or of the choice."""
    bare = Trace.parse(
        TEXT.replace(' @ "tile(dense)/i"', "").replace(' @ "tile(dense)/lanes"', "").replace(' @ "fusion"', "")
    )
    assert bare.decisions == {"i": (HOLE, 4), "categorical": 8, "fusion": "outer"}
    assert Trace.parse(str(bare)) == bare
    assert bare.apply_to(program()).func == trace().apply_to(program()).func


def test_names_of_variables_without_addresses_are_numbered() -> None:
    lines = (
        "trace 1 of dense_relu[N=11, M=9, K=7]:",
        "    a ~ sample_categorical([1, 2]) := 1",
        "    b ~ sample_categorical([1, 2])",
        '    c ~ sample_categorical([1, 2]) @ "categorical" := 2',
    )
    numbered = Trace.parse("\n".join(lines) + "\n")
    assert numbered.decisions == {"categorical#2": 1, "categorical": 2}
    assert numbered.holes == ("categorical#3",)
