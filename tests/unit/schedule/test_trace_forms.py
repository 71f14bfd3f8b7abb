"""A trace as text, as Python and as JSON: each way there and back is the identity, for every primitive."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

import metasched as ms
from metasched.errors import LanguageError
from metasched.lang.instructions import HOLE, Ref
from metasched.operators.experts import expert, expert_names
from metasched.schedule.handlers import FREE, Free, Site
from metasched.schedule.primitive import registry
from tests.support.programs import CONV, RELU_PAD_MATMUL
from tests.support.schedules import loops_of, program, schedule
from tests.unit.schedule.primitives.test_decompose_scan import done as in_blocks
from tests.unit.schedule.primitives.test_skip_padding import done as without_padding
from tests.unit.schedule.primitives.test_store_at import done as stored
from tests.unit.schedule.primitives.test_tensorize import done as tensorized
from tests.unit.schedule.primitives.test_use_partial_maxima import done as relative_to_parts
from tests.unit.schedule.primitives.test_winograd import done as in_winograds_form

PIPE = """
program pipe[N=6](A: f32[N]) -> C: f32[N]:
    twice: B[i] = A[i] * 2
    after: C[i] = B[i] + 1
"""


ROW_SUMS = """
program row_sums[N=4, M=6](X: f32[N, M]) -> Y: f32[N, M]:
    Y[i < N, j] = sum[k < N if k <= i](X[k, j])
"""
COUNTS = """
program counts[N=8, V=4](X: i64[N]) -> C: i32[V]:
    count: C[v < V] = sum[i if X[i] == v](i32(1))
"""


def _sampled() -> ms.Schedule:
    sch = schedule(RELU_PAD_MATMUL, seed=3)
    sch.choose("how", ["a", True, 2, 0.5, 'with "quotes"'])
    i, j, k = loops_of(sch, "matmul")
    sch.get_consumers(sch.get_block("relu"))
    sch.get_producers(sch.get_block("relu"))
    sch.compute_at(sch.get_block("pad"), sch.sample_compute_location(sch.get_block("pad")))
    lanes = sch.sample_categorical([2, 4], probabilities=[0.25, 0.75], name="lanes")
    with sch.scope("outer(matmul)"):
        t0, t1, t2 = sch.sample_tile(k, parts=3, innermost=4)
        sch.split(k, [t0, t1, t2])
        sch.split(j, sch.sample_partitioned_tile(j, 2, 1, 2))
    sch.split(i, [None, lanes * 2 - ms.ceildiv(lanes, 3)])
    return sch


def _moved() -> ms.Schedule:
    sch = schedule(CONV)
    sch.cache_write(sch.get_block("conv"), scope="local")
    h, w, *_ = loops_of(sch, "conv")
    _, inner = sch.split(sch.fuse(h, w), [None, 4])
    sch.unroll(inner)
    return sch


def _inlined() -> ms.Schedule:
    sch = schedule(PIPE)
    sch.reverse_compute_inline(sch.get_block("after"))
    return sch


def _parts() -> ms.Schedule:
    sch = schedule()
    i0, _ = sch.split(loops_of(sch, "dense")[0], [None, 4])
    main, _ = sch.loop_partition(i0)
    sch.parallel(main)
    return sch


def _scattered() -> ms.Schedule:
    sch = schedule(COUNTS)
    v, i = loops_of(sch, "count")
    sch.reorder(i, v)
    sch.scatter(v)
    return sch


def _carried() -> ms.Schedule:
    sch = schedule(ROW_SUMS)
    i, j, k = loops_of(sch, "Y")
    sch.reorder(i, k, j)
    sch.carry(i)
    return sch


SCHEDULES: dict[str, Callable[[], ms.Schedule]] = {
    "sampled": _sampled,
    "moved": _moved,
    "inlined": _inlined,
    "parts": _parts,
    "stored": stored,
    "tensorized": tensorized,
    "in_winograds_form": in_winograds_form,
    "without_padding": without_padding,
    "relative_to_parts": relative_to_parts,
    "in_blocks": in_blocks,
    "scattered": _scattered,
    "carried": _carried,
}


def named(which: str) -> tuple[ms.Program, ms.Trace]:
    """The program and the trace of a schedule above, or of an expert's."""
    if which in SCHEDULES:
        made = SCHEDULES[which]()
        return made.program, made.trace
    return expert(which).program(), expert(which).trace


def run(code: str, prog: ms.Program, handler: Any = None) -> ms.Trace:
    space: dict[str, Any] = {}
    exec(compile(code, "<trace>", "exec"), space)
    sch = ms.Schedule(prog, handler=handler)
    space["schedule"](sch)
    return sch.trace


def test_every_primitive_is_covered() -> None:
    """A primitive that fails here is in no schedule of SCHEDULES and in no expert trace: add it to one."""
    traces = [*(make().trace for make in SCHEDULES.values()), *(expert(name).trace for name in expert_names())]
    used = {line.op for trace in traces for line in trace.instructions}
    assert sorted(registry().keys() - used) == []


@pytest.mark.parametrize("which", [*SCHEDULES, *expert_names()])
def test_there_and_back(which: str) -> None:
    prog, trace = named(which)
    assert ms.parse_trace(str(trace)) == trace
    assert ms.Trace.from_json(trace.as_json()) == trace
    assert ms.Trace.from_json(trace.as_json(indent=None)) == trace
    for code in (ms.parse_trace(str(trace)).as_python(), trace.as_python(prog)):
        assert ms.Trace.from_python(code).canonical() == trace.canonical()
        assert ms.Trace.from_python(code).decisions == trace.decisions
        again = run(code, prog)
        assert again.canonical() == trace.canonical()
        assert again.decisions == trace.decisions
        if which in SCHEDULES:
            assert again == trace, "a schedule's own trace comes back to the letter"


def test_parameters_of_primitives_leave_the_names_of_a_line_alone() -> None:
    of_all, of_samplers = {"labels"}, {"labels", "address", "decision", "name"}
    for declared in registry().values():
        assert not {p.name for p in declared.params} & (of_samplers if declared.random else of_all), declared.name


TEXT = """\
trace 1 of dense_relu[N=11, M=9, K=7]:
    dense = get_block("dense")
    lambda, sch, ms = get_loops(dense)
    t0, t1 ~ sample_tile(lambda) @ "tile(dense)/i" := [_, 4]
    i0, i1 = split(lambda, [t0, t1])
    t2 ~ sample_categorical([4, 8]) @ "lanes" := 8
    fusion ~ choose("none", "outer") @ "a/b/fusion#2" := "outer"
    reorder(i0, sch, ms, i1)
    annotate(dense, "unroll_limit", min(t2 * 2, 64) + (2 * 3 - 16 // t2))
"""


def test_the_python_of_a_trace_written_by_hand() -> None:
    """Labels that Python cannot have as variables, arithmetic, an address of another path."""
    trace = ms.parse_trace(TEXT)
    for code in (trace.as_python(), trace.as_python(program())):
        assert run(code, program()) == trace
        assert ms.Trace.from_python(code) == trace
    code = trace.as_python(program())
    assert 'lambda_, sch_, ms_ = sch.get_loops(dense, labels=["lambda", "sch", "ms"])' in code
    assert 'i0, i1 = sch.split(lambda_, [t0, t1], labels=["i0", "i1"])' in code
    assert "ms.minimum(t2 * 2, 64) + (ms.Int.of(2) * 3 - 16 // t2)" in code
    assert 'fusion = sch.choose("fusion", ["none", "outer"], address="a/b/fusion#2", decision="outer")' in code


def test_python_says_no_more_than_it_must(golden: Callable[[str, str], None]) -> None:
    sch = schedule(seed=1)
    dense = sch.get_block("dense")
    i, _, _ = sch.get_loops(dense)
    with sch.scope("tile(dense)"):
        outer, inner = sch.sample_tile(i)
    sch.split(i, [outer, inner])
    sch.vectorize(sch.get_loops(dense)[2], lanes=sch.sample_categorical([4, 8]))
    sch.choose("how", ["one", "two"])
    golden("schedule/trace_as_python", sch.trace.as_python())


@pytest.mark.parametrize("known", [True, False])
def test_python_of_a_trace_with_holes_leaves_them_to_the_handler(known: bool) -> None:
    class Open:
        def decide(self, site: Site) -> Free:
            return FREE

    trace = ms.parse_trace(TEXT).with_decisions({"tile(dense)/i": None, "lanes": None})
    assert run(trace.as_python(program() if known else None), program(), Open()) == trace


def test_python_of_what_does_not_apply_names_the_line() -> None:
    wrong = ms.parse_trace(TEXT.replace("[_, 4]", "[_, 12]"))
    with pytest.raises(ms.ScheduleError) as info:
        wrong.as_python(program())
    assert info.value.line == 4


def test_arithmetic_that_python_does_not_have() -> None:
    trace = ms.parse_trace(TEXT.replace("min(t2 * 2, 64)", "(1 if t2 < 8 else 2)"))
    with pytest.raises(ms.ScheduleError, match="Python cannot say the arithmetic of a Select") as info:
        trace.as_python()
    assert info.value.line == 9
    assert ms.Trace.from_json(trace.as_json()) == trace


# --- decisions and labels in Python


def test_a_decision_in_python_is_taken_whoever_decides() -> None:
    sch = schedule(RELU_PAD_MATMUL)
    i, *_ = loops_of(sch, "matmul")
    pad = sch.get_block("pad")
    assert sch.choose("how", ["a", "b"], decision="b") == "b"
    sch.sample_tile(i, decision=[None, 2])
    sch.sample_categorical([1, 2], decision=2, address="some/where")
    sch.sample_compute_location(pad, decision="root")
    assert sch.trace.decisions == {"how": "b", "i_matmul": (HOLE, 2), "some/where": 2, "pad": Ref("root")}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, i: s.sample_tile(i, decision=[None, 99]), 'the decision [_, 99] at "i" is not in the support'),
        (lambda s, i: s.sample_tile(i, address=""), "address=''"),
        (lambda s, i: s.sample_tile(i, labels=["a"]), "it gives 2 integers and the trace names 1"),
        (lambda s, i: s.split(i, [None, 2], labels="ab"), "labels='ab'"),
        (lambda s, i: s.split(i, [None, 2], labels=["a", "b", "c"]), "it gives 2 results here and the trace names 3"),
        (lambda s, i: s.split(i, [None, 2], decision=2), "unexpected argument `decision`"),
        (lambda s, i: s.choose("x", [1, 2], label=["a"]), "unexpected argument `label`"),
    ],
)
def test_what_a_line_cannot_be(call: Callable[[ms.Schedule, ms.LoopRV], object], message: str) -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    before, lines = sch.func, sch.trace
    with pytest.raises(ms.ScheduleError) as info:
        call(sch, i)
    assert message in info.value.message
    assert info.value.hint
    assert (sch.func, sch.trace) == (before, lines)


def test_two_variables_of_one_address() -> None:
    sch = schedule()
    i, j, _ = loops_of(sch, "dense")
    sch.sample_tile(i, address="x")
    with pytest.raises(ms.ScheduleError, match='the address "x" is that of an earlier random variable'):
        sch.sample_tile(j, address="x")


# --- JSON


def test_json_is_one_object(golden: Callable[[str, str], None]) -> None:
    golden("schedule/trace_as_json", ms.parse_trace(TEXT).as_json())
    assert json.loads(ms.parse_trace(TEXT).as_json())["params"] == {"N": 11, "M": 9, "K": 7}
    empty = ms.parse_trace("trace 1 of dense_relu[N=11, M=9, K=7]:\n")
    assert ms.Trace.from_json(empty.as_json()) == empty


def lined(**changes: Any) -> str:
    line = {"op": "choose", "args": [1, 2], "outputs": ["x"], "random": True, "address": "x", "decision": 2}
    made = {k: v for k, v in {**line, **changes}.items() if v is not ...}
    return json.dumps({"metasched_trace": 1, "program": "p", "params": {"N": 1}, "instructions": [made]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "<json>:1:2: this is no JSON"),
        ("[]", 'a trace is an object with the key "metasched_trace"'),
        ('{"metasched_trace": 2}', "this is a trace of format 2, and format 1 is what can be read here"),
        ('{"metasched_trace": 1, "program": "p"}', '"instructions" is a list of objects'),
        (lined(op=...), "instruction 1: the key `op` is missing"),
        (lined(op="a b"), "instruction 1 (a b): op: 'a b' is no name"),
        (lined(more=1), "instruction 1 (choose): there is no key `more`\n  hint: keys are `address`, `args`"),
        (lined(arg=1), "instruction 1 (choose): there is no key `arg`\n  hint: did you mean `args`?"),
        (lined(random=False), "instruction 1 (choose): `address` belongs to a random variable\n  hint: say"),
        (lined(random=1), "instruction 1 (choose): random: 1 is neither true nor false"),
        (lined(version=0), "instruction 1 (choose): version: 0 is no number of a version"),
        (lined(decision=None), "instruction 1 (choose): decision: None is no decision\n  hint: leave the key out"),
        (lined(args={}), "instruction 1 (choose): args: {} is no list of arguments"),
        (
            lined(args=[{"reference": "x"}]),
            "stands for nothing\n  hint: objects have one key of ref, expr, hole, float",
        ),
        (lined(args=[{"expr": ["**", 1, 2]}]), "there is no operator '**'\n  hint: operators are `+`"),
        (lined(args=[{"expr": "t0 * 2"}]), "'t0 * 2' is no arithmetic"),
        (lined(outputs="x"), "outputs: 'x' is no list of names"),
        (lined(kwargs=[]), "kwargs: [] is no object of arguments"),
        (lined(decision=[{"hole": True}, math.nan]), "(choose): decision: a trace cannot hold NaN: nothing compares"),
        (lined(args=[1, math.nan]), "instruction 1 (choose): args: a trace cannot hold NaN: nothing compares equal"),
        (lined(args=[{"expr": math.nan}]), "instruction 1 (choose): args: a trace cannot hold NaN: nothing compares"),
    ],
)
def test_json_that_is_no_trace(text: str, message: str) -> None:
    with pytest.raises(LanguageError) as info:
        ms.Trace.from_json(text)
    assert message in str(info.value)
    assert all(mistake.hint for mistake in info.value.diagnostics)


def test_mistakes_of_json_are_gathered() -> None:
    with pytest.raises(LanguageError) as info:
        ms.Trace.from_json(lined(outputs="x", version=0, more=1))
    assert len(info.value.diagnostics) == 3


def test_numbers_that_json_has_not() -> None:
    text = 'trace 1 of p:\n    x ~ choose(inf, -inf, 0.5) @ "x" := inf\n'
    trace = ms.parse_trace(text)
    assert ms.Trace.from_json(trace.as_json()) == trace
    assert "Infinity" not in trace.as_json()
    assert 'decision=float("inf")' in trace.as_python()


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 300 + "]" * 300]
)
def test_json_that_is_nested_deeply_is_refused(text: str) -> None:
    with pytest.raises(ms.LanguageError, match="this is nested more than 200 levels deep"):
        ms.Trace.from_json(text)
