"""Errors say what to do once, as a hint that can be asked for alone, and arrive in other processes as they were."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.doors.jit.errors import SourceLine, TraceError
from metasched.errors import BuildError, Diagnostic, KernelError, LanguageError, MetaschedError, ScheduleError
from metasched.graph.errors import Refusal, RefusedModel
from metasched.lang.instructions import TraceData
from metasched.measure.records import CheckError
from metasched.schedule.trace_check import InvalidTrace, TraceProblem

ADD = ms.parse_program("program add(A: f32[8]) -> B: f32[8]: \n    B[i] = A[i] + 1\n")
LINE = SourceLine("f", "nowhere.py", 3)


@pytest.mark.parametrize(
    "error",
    [
        MetaschedError("no file", hint="name one"),
        KernelError("no file", hint="name one"),
        BuildError("no file", "in the folder", hint="name one"),
        CheckError("no file", hint="name one"),
        TraceError("no file", "name one", LINE),
        ScheduleError("split", "no file", hint="name one"),
    ],
)
def test_a_hint_is_said_once_and_alone(error: MetaschedError) -> None:
    assert error.hint == "name one"
    assert "no file" in str(error)
    assert str(error).count("hint") == 1
    assert str(error).endswith("\n  hint: name one")


def test_an_error_without_a_hint_is_its_message() -> None:
    error = MetaschedError("no file")
    assert (str(error), error.hint) == ("no file", "")
    assert not str(MetaschedError())


def test_a_step_of_a_trace_is_said_after_the_hint() -> None:
    error = ScheduleError("split", "7 does not divide 64", hint="choose 8")
    error.line, error.step = 4, "split(i, 7)"
    assert str(error) == "split: 7 does not divide 64\n  hint: choose 8\n  in line 4 of the trace: split(i, 7)"


def test_each_mistake_of_a_text_has_its_hint() -> None:
    error = LanguageError((Diagnostic(1, 1, "no `a`", "did you mean `A`?"), Diagnostic(2, 1, "no `b`")), "a\nb", "x.ms")
    assert str(error) == "x.ms:1:1: no `a`\n    a\n    ^\n  hint: did you mean `A`?\nx.ms:2:1: no `b`\n    b\n    ^"


@pytest.mark.parametrize(
    "error",
    [
        MetaschedError("no file", hint="name one"),
        BuildError("no file", "in the folder", hint="name one"),
        CheckError("no file", ("A", "B")),
        LanguageError((Diagnostic(1, 1, "no `a`", "did you mean `A`?"),), "a", "x.ms"),
        TraceError("no file", "name one", LINE),
        ScheduleError("split", "no file", ("i",), hint="name one"),
        InvalidTrace(TraceData("add", (), ()), (TraceProblem(3, "split(i)", "7 does not divide 64", "choose 8"),)),
        RefusedModel("m", (Refusal("n", "Reshape", 0, (), "its shape is data", ("shape",)),)),
    ],
)
def test_errors_arrive_in_other_processes(error: MetaschedError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_a_drawing_of_the_program_is_made_before_an_error_leaves_the_process() -> None:
    sch = ms.Schedule(ADD)
    with pytest.raises(ScheduleError) as caught:
        sch.split(sch.get_loops(sch.get_block("B"))[0], [2, 2])
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert "for i in 8:" in str(again)


def test_an_unchecked_result_says_which_arguments_to_give() -> None:
    error = CheckError("not finite", ("A", "B"))
    assert error.hint == "say what it takes: `inputs={NAME: (low, high)}` for `A` and `B`"
    assert str(error.with_way("--input NAME=LOW,HIGH")) == (
        "not finite\n  hint: say what it takes: `--input NAME=LOW,HIGH` for `A` and `B`"
    )
    assert CheckError("full", hint="free some memory").with_way("--input").hint == "free some memory"


def test_hints_in_a_list_are_below_what_they_are_about() -> None:
    refusal = Refusal("n", "Reshape", 0, (), "its shape is data", ("shape",))
    assert str(refusal).endswith('its shape is data\n  hint: give what decides it at load: values={"shape": ...}')
    assert "\n  Reshape `n`: its shape is data\n    hint: give" in str(RefusedModel("m", (refusal,)))
    problem = TraceProblem(3, "split(i)", "7 does not divide 64", "choose 8")
    assert str(problem) == "line 3: split(i)\n    7 does not divide 64\n  hint: choose 8"


def test_one_argument_is_no_arguments() -> None:
    with pytest.raises(ms.KernelError, match=r"^add takes 1 argument \(A\), not 0$"):
        ms.reference(ADD)()
    with pytest.raises(ms.KernelError, match=r"^the kernel takes 1 argument \(`A`\), not 2$"):
        ms.kernel("B[i] = A[i] + 1")(np.ones(8), np.ones(8))


def test_the_wrong_types_are_named_with_their_articles() -> None:
    with pytest.raises(ms.DatabaseError, match="`3` is an int, not the URL"):
        ms.records(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "asks",
    [ms.guess, ms.compile, ms.tune, ms.space, ms.Schedule, ms.Task, ms.reference],
    ids=lambda asks: asks.__name__,
)
def test_whatever_takes_a_program_says_what_to_make_one_by(asks: Callable[[Any], object]) -> None:
    with pytest.raises(
        ms.MetaschedError, match=r"`program` is a str, not a Program\n  hint: make one by parse_program"
    ):
        asks("program add(A: f32[8]) -> B: f32[8]")


@pytest.mark.parametrize(
    ("reads", "kind"),
    [(ms.parse_program, "program"), (ms.parse_trace, "trace"), (ms.Target.parse, "target")],
    ids=["program", "trace", "target"],
)
def test_whatever_reads_a_text_says_so(reads: Callable[[Any], object], kind: str) -> None:
    with pytest.raises(ms.MetaschedError, match=f"a {kind} is read from a text, not from a PosixPath"):
        reads(Path("x.ms"))


def test_handles_policies_and_decisions_of_another_kind() -> None:
    sch = ms.Schedule(ADD)
    for asks in (sch.describe, sch.name_of):
        with pytest.raises(ms.ScheduleError, match=r"'B' is no handle\n  hint: get_block\(name\) and get_loops"):
            asks("B")  # type: ignore[arg-type]
    with pytest.raises(
        ms.MetaschedError, match=r"the policy is 'repair'\n  hint: give Policy\.STRICT or Policy\.REPAIR"
    ):
        sch.trace.apply_to(ADD, "repair")  # type: ignore[arg-type]
    with pytest.raises(ms.MetaschedError, match="`program` is a str, not a Program"):
        sch.trace.apply_to("program add")  # type: ignore[arg-type]
    with pytest.raises(ms.MetaschedError, match="`decisions` is a str, not a Trace"):
        ms.rerun(lambda sch: None, ADD, "trace 1 of add:")  # type: ignore[arg-type]


def test_an_element_type_that_is_not_there() -> None:
    with pytest.raises(ms.LanguageError, match="'float32' is no element type\n  hint: did you mean `f32`"):
        ms.placeholder("A", (8,), "float32")
    with pytest.raises(ms.LanguageError, match="'q' is no element type\n  hint: the element types are"):
        ms.scalar("a", "q")


def test_rules_and_modules_are_functions() -> None:
    with pytest.raises(ms.RuleError, match=r"a rule is made of a function `\(sch, block\)`, not of 5"):
        ms.rule(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a module is a function over a Schedule, not an int"):
        ms.module(5)  # type: ignore[arg-type]


def test_knowledge_that_is_no_path_and_a_sketch_that_is_not_there() -> None:
    with pytest.raises(ms.KnowledgeError, match="`knowledge` is 5, and not the path of a file"):
        ms.guess(ADD, knowledge=5)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="there is no sketch 99: the space has 1 sketch"):
        ms.space(ADD, "vectorize")[99]
