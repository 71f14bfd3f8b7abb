"""Builder processes of networks: what they make, what they refuse, and what happens when they end."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

import metasched as ms
from metasched.errors import BuildWarning
from metasched.graph.code.builder_worker import WantedCode
from metasched.graph.code.building import BuilderProcesses, most_builders
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.code.step_code import TaskCode
from metasched.graph.code.task_code import compile_task
from metasched.schedule.trace import Trace
from metasched.target import Target

TARGET = Target.detect(threads=2)
PROGRAM = ms.parse_program("program double(A: f32[64, 64]) -> B: f32[64, 64]:\n    B[i, j] = 2.0 * A[i, j]\n")


def in_vectors() -> Choice:
    sch = ms.Schedule(PROGRAM)
    _, j = sch.get_loops(sch.get_block("B"))
    sch.vectorize(j, 16)
    return Choice(sch.trace, ScheduleOrigin.GIVEN)


BY_HAND = in_vectors()


def build(wanted: dict[str, WantedCode], made: Callable[[str, TaskCode], None], *module: str) -> None:
    with BuilderProcesses(*module) as builders:
        builders.build(wanted, TARGET, made)


def test_builders_make_what_this_process_makes_and_errors_arrive() -> None:
    found: dict[str, TaskCode] = {}
    wanted = {
        "chosen": WantedCode(PROGRAM, BY_HAND),
        "written": WantedCode(PROGRAM, Choice(None, ScheduleOrigin.AS_WRITTEN), {"A": (80, 1)}),
    }
    wrong = Choice(Trace.parse(str(BY_HAND.trace).replace('"B"', '"nowhere"')), ScheduleOrigin.GIVEN)
    with pytest.raises(ms.BuildError, match="nowhere"):
        build({**wanted, "wrong": WantedCode(PROGRAM, wrong)}, found.__setitem__)
    assert {"chosen", "written"} >= found.keys() - {"wrong"}
    for name in found.keys() & {"chosen", "written"}:
        one = wanted[name]
        assert found[name] == compile_task(PROGRAM, one.choice or BY_HAND, TARGET, one.strides)


def test_a_task_over_which_builders_end_runs_as_it_is_written() -> None:
    found: dict[str, TaskCode] = {}
    with pytest.warns(BuildWarning, match=r"(?s)double runs as it is written.*crash exit 3.*ms.compile"):
        build({"chosen": WantedCode(PROGRAM, BY_HAND)}, found.__setitem__, "tests.e2e.workers.ending_task_builder")
    assert found["chosen"].trace is None
    assert found["chosen"].origin == "as written: crash exit 3"
    assert found["chosen"].is_stopgap


def test_an_interrupt_ends_the_builders() -> None:
    def interrupted(_key: str, _code: TaskCode) -> None:
        raise KeyboardInterrupt

    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        build({"chosen": WantedCode(PROGRAM, BY_HAND)}, interrupted)
    assert set(psutil.Process().children()) <= before


def test_builders_that_are_not_needed_end_with_their_block() -> None:
    before = set(psutil.Process().children())
    with BuilderProcesses() as builders:
        builders.start_processes(1)
        builders.start_processes(1)
        assert len(set(psutil.Process().children()) - before) == min(1, most_builders())
    assert set(psutil.Process().children()) <= before
