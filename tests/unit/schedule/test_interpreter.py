from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.lang.instructions import HOLE, Instruction
from metasched.schedule.handlers import DrawFromPrior, Policy, Replay, stream
from metasched.schedule.values import BlockRV, LoopRV, ceildiv
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL, TWO
from tests.support.schedules import checked, fails, lines, loops_of, program, schedule

# --- what it is


def test_it_starts_as_the_program() -> None:
    sch = schedule()
    assert sch.func == sch.program.func
    assert sch.block_names() == ("dense", "relu")
    assert len(sch.trace) == 0
    assert str(sch) == str(schedule())


def test_it_shows_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    sch = schedule()
    sch.show()
    assert capsys.readouterr().out == f"{sch}\n"
    assert "<pre>" in sch._repr_html_()
    assert "-&gt;" in sch._repr_html_()


def test_a_primitive_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match=re.escape("there is no primitive `splitt`\n  hint: did you mean `split`")):
        schedule().splitt  # type: ignore[attr-defined]
    assert not hasattr(schedule(), "_private")


def test_primitives_are_offered_where_names_are_completed() -> None:
    assert {"split", "sample_tile", "choose", "trace"} <= set(dir(schedule()))


def test_handles_are_labels_of_the_trace() -> None:
    sch = schedule()
    i, j, k = loops_of(sch, "dense")
    outer, inner = sch.split(k, [None, 2])
    sch.reorder(outer, i, j)
    assert lines(sch.trace) == [
        'dense = get_block("dense")',
        "i, j, k = get_loops(dense)",
        "k_0, k_1 = split(k, [None, 2])",
        "reorder(k_0, i, j)",
    ]
    assert [str(h) for h in (i, outer, inner)] == ["i", "k_0", "k_1"]
    checked(sch)


def test_a_generated_block_has_a_label_that_is_a_name() -> None:
    sch = schedule()
    made = sch.cache_write(sch.get_block("relu"), scope="local")
    assert sch.name_of(made) == "relu.D.write"
    assert made.label == "relu_D_write"
    checked(sch)


def test_a_stage_may_have_the_label_of_a_generated_block() -> None:
    sch = ms.Schedule(program(DENSE_RELU.replace("relu:", "dense_A_read:")))
    stage = sch.get_block("dense_A_read")
    made = sch.cache_read(sch.get_block("dense"), "A")
    assert (stage.label, made.label) == ("dense_A_read", "dense_A_read_")
    assert (sch.name_of(stage), sch.name_of(made)) == ("dense_A_read", "dense.A.read")
    checked(sch)


def test_names_stay_unique_along_a_trace() -> None:
    """A name that was free again would make two handles of a replayed trace the same."""
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    parts = sch.split(i, [None, 2])
    back = sch.fuse(*parts)
    again = sch.split(back, [None, 2])
    assert len({h.label for h in (i, *parts, back, *again)}) == 6
    checked(sch)


# --- a failed step changes nothing


def test_a_failed_step_leaves_no_mark() -> None:
    sch = schedule()
    i, _, k = loops_of(sch, "dense")
    before, trace, taken = sch.func, sch.trace, set(sch.context.taken)
    for step in (lambda: sch.parallel(k), lambda: sch.split(i, [2, 2]), lambda: sch.fuse(i, k)):
        with pytest.raises(ScheduleError):
            step()
        assert sch.func is before
        assert sch.trace == trace
        assert sch.context.taken == taken
        assert not sch.context.constraints


def test_an_error_draws_the_program_with_the_place_marked() -> None:
    sch = schedule()
    _, _, k = loops_of(sch, "dense")
    with pytest.raises(ScheduleError) as info:
        sch.parallel(k)
    message, hint, *drawn = str(info.value).splitlines()
    assert message == "parallel: loop `k` runs along a reduction of block `dense`"
    assert hint == "  hint: rfactor the loop first, or choose another loop"
    at = next(n for n, line in enumerate(drawn) if "for i, j, k in grid(11, 9, 7):" in line)
    assert drawn[at + 1].index("^") == drawn[at].index("k in")


# --- arguments


INT = "an integer or an integer random variable"
FACTORS = "a list, each an integer, an integer random variable, or None"
PLACE = "a loop, or where a block may be computed"


@pytest.mark.parametrize(
    ("call", "where", "expected"),
    [
        (lambda s, b, i: s.split(b, [2, 4]), "split: argument `loop`", "a loop, got `dense`"),
        (lambda s, b, i: s.get_loops(i), "get_loops: argument `block`", "a block, got `i`"),
        (lambda s, b, i: s.get_block(3), "get_block: argument `name`", "a string, got 3"),
        (lambda s, b, i: s.split(i, 4), "split: argument `factors`", f"{FACTORS}, got 4"),
        (lambda s, b, i: s.split(i, "44"), "split: argument `factors`", f"{FACTORS}, got '44'"),
        (lambda s, b, i: s.split(i, [2.0, None]), "split: argument `factors`", f"{FACTORS}, got 2.0"),
        (lambda s, b, i: s.split(i, [True, None]), "split: argument `factors`", f"{FACTORS}, got True"),
        (lambda s, b, i: s.fuse(i, "j"), "fuse: argument `loops`", "a loop, got 'j'"),
        (lambda s, b, i: s.vectorize(i, lanes=None), "vectorize: argument `lanes`", f"{INT}, got None"),
        (lambda s, b, i: s.sample_tile(i, parts="2"), "sample_tile: argument `parts`", "a number, got '2'"),
        (lambda s, b, i: s.sample_tile(i, perfect=1), "sample_tile: argument `perfect`", "True or False, got 1"),
        (lambda s, b, i: s.annotate("i", "x", 4), "annotate: argument `target`", "a loop or a block, got 'i'"),
        (lambda s, b, i: s.compute_at(b, "outside"), "compute_at: argument `loop`", f"{PLACE}, got 'outside'"),
    ],
)
def test_arguments_of_another_kind(call: Any, where: str, expected: str) -> None:
    sch = schedule()
    block = sch.get_block("dense")
    i = sch.get_loops(block)[0]
    before = sch.trace
    with fails(f"{where}: expected {expected}"):
        call(sch, block, i)
    assert sch.trace == before


def test_the_hint_says_what_was_given_instead() -> None:
    sch = schedule()
    block = sch.get_block("dense")
    with pytest.raises(ScheduleError) as info:
        sch.unroll(block)  # type: ignore[arg-type]
    assert info.value.hint == "unroll(loop); `dense` is a block"


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda s, i: s.split(i), "split: argument `factors` is missing", "split(loop, factors)"),
        (
            lambda s, i: s.split(i, factor=[4, None]),
            "split: argument `factors` is missing, and there is no `factor`",
            "split(loop, factors)",
        ),
        (lambda s, i: s.vectorize(i), "vectorize: argument `lanes` is missing", "vectorize(loop, lanes)"),
        (lambda s, i: s.unroll(i, 4), "unroll: unexpected argument 4", "unroll(loop)"),
        (lambda s, i: s.unroll(i, i), "unroll: unexpected argument `i`", "unroll(loop)"),
        (lambda s, i: s.unroll(i, by=4), "unroll: unexpected argument `by`", "unroll(loop)"),
    ],
)
def test_missing_and_unexpected_arguments(call: Any, message: str, hint: str) -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    with fails(message, hint):
        call(sch, i)


def test_a_handle_of_another_schedule() -> None:
    sch = schedule()
    other = schedule(TWO)
    stranger = other.get_block("first")
    with fails(
        "get_loops: `first` is a block of another schedule",
        "a handle is of the schedule that returned it, and of copies of that",
    ):
        sch.get_loops(stranger)
    with fails("handle: `first` is a block of another schedule"):
        sch.describe(stranger)
    with fails("handle: `first` is not a handle of this schedule"):
        sch.describe(BlockRV("first"))
    other = schedule()
    foreign = other.sample_tile(loops_of(other, "dense")[0], parts=2)[1]
    with fails("split: `t1` is not an integer that an earlier line made"):
        sch.split(loops_of(sch, "dense")[0], [None, foreign * 2])
    kind = "an integer, an integer random variable, or None"
    with fails(f"split: `t1`, given for `factors`, is not {kind} that an earlier line made"):
        sch.split(loops_of(sch, "dense")[0], [None, foreign])


def test_a_handle_of_another_schedule_with_the_same_label() -> None:
    """It would stand for a loop of another extent."""
    sch, other = schedule(), schedule()
    _, four = other.split(loops_of(other, "dense")[0], [None, 4])
    sch.split(loops_of(sch, "dense")[0], [None, 8])
    with fails("unroll: `i_1` is a loop of another schedule"):
        sch.unroll(four)


def test_a_handle_is_of_copies_too() -> None:
    """What a rule looked up on a trial stands for the same here, once it is there."""
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    _, inner = sch.trial().split(i, [None, 4])
    with fails("unroll: `i_1`, given for `loop`, is not a loop that an earlier line made"):
        sch.unroll(inner)
    sch.split(i, [None, 4])
    sch.trial().unroll(inner)
    sch.unroll(inner)


def test_a_stale_handle() -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    sch.split(i, [None, 4])
    hint = "an earlier step split, fused or moved it; use the handles that step returned, or get_loops(block) again"
    with fails("split: loop `i` no longer exists", hint):
        sch.split(i, [None, 4])


def test_defaults_are_not_written() -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    sch.sample_tile(i, parts=2, innermost=64, perfect=False)
    sch.sample_tile(i, parts=3, innermost=64, perfect=True)
    first, second = lines(sch.trace)[2:]
    assert "sample_tile(i)" in first
    assert "sample_tile(i, parts=3, perfect=True)" in second


# --- executing what was read


def test_an_instruction_that_is_not_known() -> None:
    with fails("tile: there is no primitive of this name"):
        schedule().execute(Instruction("tile"))
    with pytest.raises(ScheduleError, match="did you mean `split`"):
        schedule().execute(Instruction("splitt"))


def test_an_instruction_of_another_version() -> None:
    message = "get_block: version 2 is not known; this metasched has version 1"
    with fails(message, "replay the trace with the metasched that wrote it"):
        schedule().execute(Instruction("get_block", ("dense",), outputs=("b",), version=2))


# --- handles


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (bool, "branch on"),
        (lambda at: at == "inline", "compare"),
        (lambda at: at != "inline", "compare"),
        (lambda at: at in ("root", "inline"), "compare"),
        (lambda at: at == LoopRV("j"), "compare"),
        (lambda at: LoopRV("j") != at, "compare"),
        (lambda at: at in {"root", "inline"}, "hash"),
        ({"inline": 1}.get, "hash"),
        (lambda at: f"at {at}", "format"),
    ],
)
@pytest.mark.parametrize("place", ["root", "inline", "j"])
def test_a_location_that_was_drawn_has_no_value_in_a_module(use: Any, what: str, place: str) -> None:
    sch = schedule(RELU_PAD_MATMUL)
    location = sch.sample_compute_location(sch.get_block("pad"), decision=place)
    assert location == location
    assert location is not None
    assert location != None  # noqa: E711
    with pytest.raises(TypeError) as info:
        use(location)
    assert str(info.value) == (
        f"cannot {what} the random variable `pad_1` inside a module: its value differs between candidates\n"
        '  hint: for a structural decision write `how = sch.choose("name", [...])`, whose result is a plain value'
    )
    assert f"{location!s} {location!r}" == "pad_1 LocationRV(label='pad_1')"


def test_a_handle_is_no_name() -> None:
    sch = schedule()
    block = sch.get_block("dense")
    i, j, _ = sch.get_loops(block)
    comparisons: list[Callable[[], bool]] = [
        lambda: block == "dense",
        lambda: block != "dense",
        lambda: block in sch.block_names(),
    ]
    for compare in comparisons:
        with pytest.raises(TypeError) as info:
            compare()
        said = str(info.value)
        assert said.startswith("cannot compare the block `dense` with the text 'dense': a handle is no name")
        assert said.endswith("\n  hint: `sch.name_of(block)` is the name of the block it stands for")
    uses: list[Callable[[], bool]] = [lambda: i == "i", lambda: i in {"i", "j"}]
    for use in uses:
        with pytest.raises(TypeError) as info:
            use()
        assert str(info.value) == (
            "cannot compare the loop `i` with the text 'i': a handle is no name\n"
            "  hint: `sch.name_of(loop)` is the name of the loop it stands for"
        )
    assert i == sch.get_loops(block)[0]
    assert {i: 1}[sch.get_loops(block)[0]] == 1
    assert i in (j, i)
    assert i != j
    assert i != BlockRV("i")
    assert sch.name_of(block) == "dense"


def test_a_block_where_a_location_belongs() -> None:
    sch = schedule(RELU_PAD_MATMUL)
    pad = sch.get_block("pad")
    with fails(
        "compute_at: argument `loop`: expected a loop, or where a block may be computed, got `pad`",
        "compute_at(block, loop); `pad` is a block",
    ):
        sch.compute_at(pad, pad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "text", "value"),
    [
        (lambda t: t + 1, "t1 + 1", 5),
        (lambda t: 1 + t, "1 + t1", 5),
        (lambda t: t - 1, "t1 - 1", 3),
        (lambda t: 9 - t, "9 - t1", 5),
        (lambda t: t * 2, "t1*2", 8),
        (lambda t: 2 * t, "2*t1", 8),
        (lambda t: (t + 3) * 2, "(t1 + 3)*2", 14),
        (lambda t: t * t, "t1*t1", 16),
        (lambda t: t // 3, "t1//3", 1),
        (lambda t: t % 3, "t1 % 3", 1),
        (lambda t: ceildiv(t, 3), "ceildiv(t1, 3)", 2),
        (lambda t: -t + 9, "-t1 + 9", 5),
    ],
)
def test_arithmetic_is_written_into_the_trace(expression: Any, text: str, value: int) -> None:
    sch = schedule(handler=Replay({"i": (HOLE, 4)}, Policy.STRICT, DrawFromPrior(0)))
    i, *_ = loops_of(sch, "dense")
    _, t = sch.sample_tile(i, parts=2)
    sch.split(i, [None, expression(t)])
    assert re.sub(r"\s", "", lines(sch.trace)[-1]) == re.sub(r"\s", "", f"i_0, i_1 = split(i, [None, {text}])")
    assert as_int(query.find_loop(sch.func, "i_1").extent) == value
    checked(sch)


# --- scopes, addresses, streams


def test_addresses_are_scopes_and_a_name() -> None:
    sch = schedule()
    dense = sch.get_block("dense")
    i, j, k = sch.get_loops(dense)
    sch.sample_tile(i)
    with sch.scope("tile(dense)"):
        sch.sample_tile(j)
        with sch.scope("inner"):
            sch.sample_tile(k, name="depth")
        sch.sample_categorical([1, 2], name="lanes")
        sch.sample_categorical([1, 2])
        sch.choose("how", ["a", "b"])
    sch.sample_tile(i)
    assert [r.site.address for r in sch.sites] == [
        *("i", "tile(dense)/j", "tile(dense)/inner/depth", "tile(dense)/lanes", "tile(dense)/categorical"),
        *("tile(dense)/how", "i#2"),
    ]
    checked(sch)


def test_repeated_addresses_are_numbered() -> None:
    sch = schedule()
    for _ in range(3):
        with sch.scope("again"):
            sch.sample_categorical([1, 2], name="x")
    assert [r.site.address for r in sch.sites] == ["again/x", "again/x#2", "again/x#3"]
    checked(sch)


def test_an_address_is_named_after_what_is_sampled() -> None:
    """After the loop, and not the handle: the name in the trace may be another."""
    sch = schedule(TWO)
    first, second = sch.get_block("first"), sch.get_block("second")
    sch.sample_compute_location(first)
    sch.sample_tile(sch.get_loops(second)[0])
    assert [r.site.address for r in sch.sites] == ["first", "i_second"]


def test_a_scope_ends_with_an_error() -> None:
    sch = schedule()
    with pytest.raises(ScheduleError), sch.scope("inside"):
        sch.get_block("nothing")
    sch.sample_categorical([1, 2], name="x")
    assert sch.sites[0].site.address == "x"


def test_each_address_draws_from_its_own_stream() -> None:
    def draws(extra: bool) -> dict[str, Any]:
        sch = schedule(seed=5, N=512, M=256, K=64)
        i, j, k = loops_of(sch, "dense")
        if extra:
            sch.sample_tile(k, name="another rule")
        sch.sample_tile(i, parts=3)
        sch.sample_categorical(list(range(100)), name="c")
        if extra:
            sch.choose("structure", list(range(100)))
        sch.sample_tile(j, parts=3)
        return dict(sch.trace.decisions)

    few, many = draws(False), draws(True)
    assert few.items() <= many.items()
    assert draws(False) == few


def test_seeds_differ() -> None:
    drawn = {schedule(seed=n).choose("x", list(range(1000))) for n in range(8)}
    assert len(drawn) > 4


def test_a_stream_is_of_a_seed_and_an_address() -> None:
    def start(seed: int, address: str) -> list[int]:
        return [int(n) for n in stream(seed, address).integers(1 << 30, size=3)]

    assert start(0, "a/b") == start(0, "a/b")
    assert start(0, "a/b") != start(0, "a/c")
    assert start(0, "a/b") != start(1, "a/b")


def test_what_is_asked_of_a_block_that_is_gone() -> None:
    sch = schedule(TWO)
    block = sch.get_block("first")
    sch.compute_inline(block)
    for ask in (sch.describe, sch.tensor_fits, lambda gone: sch.add_fact(gone, "fact")):
        with pytest.raises(ScheduleError, match="there is no block `first`"):
            ask(block)


# --- choose, facts


def test_choose_gives_the_plain_option() -> None:
    sch = schedule()
    for options in (["none", "outer"], [1, 2], [True, False], [0.5, 1.5]):
        taken = sch.choose("how", options)
        assert any(taken is o or taken == o for o in options)
        assert type(taken) is type(options[0])


def test_numbers_of_numpy_and_ranges_are_taken_as_those_of_python() -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    sch.split(i, [None, np.int64(4)])  # type: ignore[list-item]
    sch.sample_categorical(range(2, 5))
    assert sch.choose("how", range(3)) in range(3)
    assert sch.choose("size", [np.int64(7)]) == 7
    assert ms.parse_trace(str(sch.trace)) == sch.trace


def test_a_choice_is_named_first() -> None:
    with fails("choose: its name is [1, 2]", "name the decision first: choose(name, options)"):
        schedule().choose([1, 2])  # type: ignore[arg-type]


def test_choose_without_options() -> None:
    with fails('choose: "how" has no options'):
        schedule().choose("how", [])


def test_options_have_an_order() -> None:
    with fails("choose: the options of \"how\" are 'ab'"):
        schedule().choose("how", "ab")


def test_facts_are_typed_and_leave_no_trace() -> None:
    sch = schedule()
    dense = sch.get_block("dense")
    before = sch.trace
    assert sch.facts(dense, str) is None
    sch.add_fact(dense, "tiled")
    sch.add_fact(dense, 4)
    sch.add_fact(dense, "factored")
    assert sch.facts(dense, str) == "factored"
    assert sch.facts(dense, int) == 4
    assert sch.facts(sch.get_block("relu"), str) is None
    assert sch.facts(sch.get_block("dense"), int) == 4, "facts are about blocks, not about handles"
    assert lines(before) == lines(sch.trace)[: len(before)]
    assert "factored" not in str(sch.trace)


def test_describing_leaves_no_line() -> None:
    sch = schedule()
    dense = sch.get_block("dense")
    before = sch.trace
    assert sch.describe(dense).reduces
    assert sch.trace == before


def test_every_name_of_the_example_in_the_docstring() -> None:
    sch = ms.Schedule(program(DENSE_RELU), seed=0)
    i, _j, _k = sch.get_loops(sch.get_block("dense"))
    _i0, _i1 = sch.split(i, sch.sample_tile(i, parts=2))
    checked(sch)


# --- what fails leaves nothing behind


def test_a_draw_that_fails_uses_up_no_address() -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    with pytest.raises(ScheduleError):
        sch.sample_tile(i, decision=[None, 99])
    sch.sample_tile(i)
    sch.sample_tile(i)
    assert [record.site.address for record in sch.sites] == ["i", "i#2"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("i0, i1, i2 = split(i, [None, 4])", "it gives 2 results here and the trace names 3"),
        ('a, b = cache_read(dense, "A")', "it gives 1 result here and the trace names 2"),
        ("a = reorder(j, i)", "it gives 0 results here and the trace names 1"),
        ('a, b ~ choose(1, 2) @ "x" := 1', "it gives one result and the trace names 2"),
        ('a ~ sample_tile(i) @ "x" := [_, 2]', "it gives 2 integers and the trace names 1"),
    ],
)
def test_another_number_of_results_changes_nothing(line: str, message: str) -> None:
    sch = schedule()
    sch.get_loops(sch.get_block("dense"))
    before, lines_before = sch.func, sch.trace
    text = f"{sch.trace}    {line}\n"
    instruction = ms.parse_trace(text).instructions[-1]
    for _ in range(2):
        with pytest.raises(ScheduleError) as info:
            sch.execute(instruction)
        assert info.value.message == message
        assert (sch.func, sch.trace, sch.sites) == (before, lines_before, ())
        assert sch.context.constraints == []


def test_errors_of_samplers_have_a_hint_and_the_program() -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    attempts: list[Callable[[], object]] = [
        lambda: sch.sample_tile(i, parts=1),
        lambda: sch.sample_tile(i, innermost=0),
        lambda: sch.sample_tile(i, decision=[None, 99]),
    ]
    for attempt in attempts:
        with pytest.raises(ScheduleError) as info:
            attempt()
        assert info.value.hint
        assert "func dense_relu(" in str(info.value)
    for values, probabilities in (([4, 4], []), ([4, 8], [0.5, 0.1])):
        with pytest.raises(ScheduleError) as info:
            sch.sample_categorical(values, probabilities=probabilities)
        assert info.value.hint


def test_showing_is_plain_in_a_file_and_marked_up_in_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    sch = schedule()
    sch.show()
    assert capsys.readouterr().out == f"{sch}\n"
    assert "<span" in sch._repr_html_()
    sch.trace.show()
    assert capsys.readouterr().out == f"{sch.trace}"
    assert sch.trace._repr_html_().startswith("<div><table>")


def test_a_fork_shares_nothing_that_changes() -> None:
    sch = ms.Schedule(program(DENSE_RELU))
    fork = sch.fork(sch.handler)
    block = fork.get_block("dense")
    fork.parallel(fork.get_loops(block)[0])
    assert type(fork) is ms.Schedule
    assert (sch.instructions, sch.func) == ((), sch.program.func)
    assert len(fork.instructions) == 3
    assert sch.describe(sch.get_block("dense")).kinds != fork.describe(block).kinds
