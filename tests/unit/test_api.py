from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.database import Role, open_database
from metasched.database.best import is_faster
from metasched.errors import MetaschedError
from metasched.runtime.kernel import Origin

TEXT = """
program dense_relu[N=11, M=9, K=7](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""

TRACE = """
trace 1 of dense_relu[N=11, M=9, K=7]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
    t0, t1 ~ sample_tile(i) @ "i" := [_, 4]
    i0, i1 = split(i, [t0, t1])
    parallel(i0)
    vectorize(j, lanes=8)
"""


@pytest.fixture
def program() -> ms.Program:
    return ms.parse_program(TEXT)


def data(program: ms.Program) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.integers(-4, 5, shape).astype(np.float32) for shape in ((11, 7), (7, 9)))  # type: ignore[return-value]


def test_what_scripts_rely_on() -> None:
    for name in (
        *("tune", "compile", "guess", "space", "reference", "rerun", "parse_program", "load_program", "parse_trace"),
        *(
            "Kernel",
            "Program",
            "Schedule",
            "Space",
            "Sketch",
            "Target",
            "Trace",
            "Policy",
            "Int",
            "rule",
            "skip",
            "module",
        ),
        *("MetaschedError", "ScheduleError", "LanguageError", "BuildError", "KernelError", "NoRecord"),
        *("NondeterministicModule", "RuleError", "__version__"),
    ):
        assert hasattr(ms, name), name
    for name in ("LanguageError", "ScheduleError", "BuildError", "KernelError", "NoRecord", "RuleError"):
        assert issubclass(getattr(ms, name), ms.MetaschedError)


def test_compiling_a_trace(program: ms.Program) -> None:
    trace = ms.parse_trace(TRACE)
    kernel = ms.compile(program, trace=trace)
    a, b = data(program)
    np.testing.assert_array_equal(kernel(a, b), np.maximum(a @ b, 0))
    np.testing.assert_array_equal(kernel(a, b), ms.reference(program)(a, b))
    assert kernel.origin is Origin.TRACE
    assert kernel.trace == trace
    assert kernel.program == program


def test_a_trace_of_another_shape(program: ms.Program) -> None:
    smaller = ms.parse_program(TEXT, N=3)
    trace = ms.parse_trace(TRACE)
    with pytest.raises(ms.ScheduleError, match=re.escape("it was made for dense_relu[N=11, M=9, K=7]")):
        ms.compile(smaller, trace=trace)
    kernel = ms.compile(smaller, trace=trace, policy=ms.Policy.REPAIR)
    a, b = data(program)
    np.testing.assert_array_equal(kernel(a[:3].copy(), b), np.maximum(a[:3] @ b, 0))
    assert kernel.trace is not None
    assert kernel.trace.decisions["i"][-1] == 3


def test_a_guess_measures_nothing(program: ms.Program) -> None:
    kernel = ms.compile(program)
    a, b = data(program)
    np.testing.assert_array_equal(kernel(a, b), np.maximum(a @ b, 0))
    assert kernel.origin is Origin.GUESS
    assert kernel.trace == ms.guess(program)


def test_a_guess_of_other_rules(program: ms.Program) -> None:
    assert "parallel(" not in str(ms.guess(program, rules="cpu,-parallelize"))


def test_one_source_at_a_time(program: ms.Program) -> None:
    with pytest.raises(ms.MetaschedError, match="`trace` and `db` both say where the schedule comes from"):
        ms.compile(program, trace=ms.parse_trace(TRACE), db="sqlite:///x.db")
    with pytest.raises(ms.MetaschedError, match="`rules` and `space` both say what to search"):
        ms.tune(program, rules="cpu", space=lambda sch: None)


def test_a_database_that_is_not_there(program: ms.Program, tmp_path: Path) -> None:
    with pytest.raises(ms.MetaschedError, match="there is no database at"):
        ms.compile(program, db=f"sqlite:///{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists(), "asking makes no database"


def test_a_database_that_has_nothing_for_this_shape(program: ms.Program, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/some.db"
    ms.tune(program, trials=1, db=db, rules=[])
    with pytest.raises(ms.NoRecord, match=re.escape("has no valid measurement of dense_relu[N=3, M=9, K=7]")):
        ms.compile(ms.parse_program(TEXT, N=3), db=db)


def test_tuning_keeps_what_it_measured(program: ms.Program, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/tuned.db"
    seen: list[object] = []
    kernel = ms.tune(program, trials=2, db=db, progress=seen.append)
    a, b = data(program)
    np.testing.assert_array_equal(kernel(a, b), np.maximum(a @ b, 0))
    assert kernel.origin is Origin.MEASURED
    assert len(seen) >= 2
    again = ms.tune(program, trials=2, db=db)
    assert again.trace == kernel.trace
    assert ms.compile(program, db=db).trace == kernel.trace


def test_an_interrupt_before_anything_was_measured(
    program: ms.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("metasched.measure.executors.local.LocalRunner", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ms.tune(program, trials=2, db=f"sqlite:///{tmp_path}/none.db")


def test_tuning_a_module(program: ms.Program, tmp_path: Path) -> None:
    def mine(sch: ms.Schedule) -> None:
        i, *_ = sch.get_loops(sch.get_block("dense"))
        sch.split(i, sch.sample_tile(i))

    kernel = ms.tune(program, trials=1, db=f"sqlite:///{tmp_path}/mine.db", space=mine)
    assert kernel.trace is not None
    assert [i.op for i in kernel.trace.instructions] == ["get_block", "get_loops", "sample_tile", "split"]


def test_tuning_the_holes_of_a_trace(program: ms.Program, tmp_path: Path) -> None:
    """What is decided stays, and searches with and without conditions share what they measured."""
    url = f"sqlite:///{tmp_path / 'holes.db'}"
    trace = ms.parse_trace(TRACE)
    holes = ms.parse_trace(str(trace.with_decisions({"i": None})))
    kernel = ms.tune(program, trials=2, db=url, space=holes)
    assert kernel.report.records == 2
    assert not kernel.trace.with_decisions({"i": None}).diff(holes)
    assert kernel.trace.decisions["i"] is not None
    again = ms.tune(program, trials=2, db=url, space=holes)
    assert (again.report.measured, again.trace) == (0, kernel.trace)

    def module(sch: ms.Schedule) -> None:
        i, j, _ = sch.get_loops(sch.get_block("dense"))
        i0, _ = sch.split(i, sch.sample_tile(i), labels=["i0", "i1"])
        sch.parallel(i0)
        sch.vectorize(j, lanes=8)

    free = ms.tune(program, trials=3, db=url, space=module)
    assert (free.report.records, free.report.measured) == (3, 1)
    given = kernel.trace.decisions["i"]
    only = ms.tune(program, trials=1, db=url, space=ms.condition(module, {"i": given}))
    assert (only.report.measured, only.trace) == (0, kernel.trace)


def test_conditions_are_checked_before_anything_starts(program: ms.Program, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'wrong.db'}"
    with pytest.raises(ms.ScheduleError, match=r'no sketch of dense_relu.* has a random variable at "nowhere"'):
        ms.tune(program, db=url, space=ms.condition("cpu", {"nowhere": 1}))
    assert not (tmp_path / "wrong.db").exists()


def test_arguments_are_checked_where_nothing_is_left_to_measure(program: ms.Program, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'enough.db'}"
    ms.tune(program, trials=1, db=url, rules="vectorize")

    @ms.rule
    def raising(sch: ms.Schedule, block: object) -> None:
        """It cannot work."""
        raise ZeroDivisionError("a mistake in a rule")

    def module(sch: ms.Schedule) -> None:
        sch.get_block("nowhere")

    with pytest.raises(ms.RuleError, match="no rule or preset `nosuch`"):
        ms.tune(program, trials=1, db=url, rules="nosuch")
    with pytest.raises(ZeroDivisionError, match="a mistake in a rule"):
        ms.tune(program, trials=1, db=url, rules=[raising])
    with pytest.raises(MetaschedError, match="nosuch"):
        ms.tune(program, trials=1, db=url, strategy="nosuch")
    with pytest.raises(MetaschedError, match="nowhere"):
        ms.tune(program, trials=1, db=url, space=module)


def test_what_tuning_leaves_is_never_slower_than_the_guess(program: ms.Program, tmp_path: Path) -> None:
    """A space of no rules has the plainest schedule alone, which `tune` returns, and nobody else is given."""
    url = f"sqlite:///{tmp_path / 'worse.db'}"
    plain = ms.tune(program, trials=1, db=url, rules=[])
    assert "vectorize" not in str(plain.trace)
    with open_database(url) as database:
        (task,) = (stats.task for stats in database.stats().tasks)
        default = next(r for r in database.records(task) if r.role is Role.DEFAULT)
    assert default.trace == str(ms.guess(program))
    assert default.settled, "it does not race against what it is compared with"
    kernel = ms.compile(program, db=url)
    assert str(kernel.trace) in {str(plain.trace), default.trace}
    assert kernel.report.role is Role.DEFAULT or is_faster(kernel.report, default)


def test_a_repaired_kernel_says_what_was_mended(program: ms.Program) -> None:
    small = ms.parse_program(TEXT, N=3)
    kernel = ms.compile(small, trace=ms.parse_trace(TRACE), policy=ms.Policy.REPAIR)
    assert [repair.address for repair in kernel.report] == ["i"]
    assert ms.compile(program, trace=ms.parse_trace(TRACE)).report == ()


@pytest.mark.parametrize(("trials", "reason"), [(0, "at least one"), ("many", "it is how many")])
def test_a_number_of_trials(program: ms.Program, trials: object, reason: str, tmp_path: Path) -> None:
    with pytest.raises(MetaschedError, match=f"trials is {trials!r}; {reason}"):
        ms.tune(program, trials=trials, db=f"sqlite:///{tmp_path}/none.db")  # type: ignore[arg-type]


def test_the_report_of_a_repaired_trace_is_for_a_person(program: ms.Program) -> None:
    text = 'dense = get_block("dense")\n    i, j, k = get_loops(dense)\n    t, u ~ sample_tile(i) @ "i" := [_, 5000]'
    header = str(ms.Schedule(program).trace).strip()
    kernel = ms.compile(program, trace=ms.parse_trace(f"{header}\n    {text}"), policy=ms.Policy.REPAIR)
    assert str(kernel.report).startswith('repaired 1 decision:\n    "i": [_, 5000] -> [_, ')
