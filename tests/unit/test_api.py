from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched import api
from metasched.database import Access, Record, Role, TaskKey, TaskStats, open_database
from metasched.database.best import is_faster
from metasched.errors import MetaschedError
from metasched.measure.runner import Runner
from metasched.runtime.kernel import Origin
from metasched.schedule.handlers import Repairs
from tests.support.kept_workers import kept_workers

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


@pytest.fixture(scope="module", autouse=True)
def runner() -> Iterator[Runner]:
    """One for all searches of this file, also for those that open one by its name."""
    with kept_workers() as kept:
        yield kept


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


def test_what_a_kernel_reports(program: ms.Program, runner: Runner, tmp_path: Path) -> None:
    """That type checkers know it, tests/unit/test_docs.py says."""
    url = f"sqlite:///{tmp_path}/t.db"
    tuned = ms.tune(program, trials=1, runner=runner, db=url)
    kernels: list[ms.Kernel] = [tuned, ms.compile(program, trace=ms.parse_trace(TRACE)), ms.compile(program)]
    kernels += [ms.compile(program, db=url), ms.compile(program, trials=1, db=url)]
    assert [type(kernel.report) for kernel in kernels] == [ms.TuningReport, Repairs, ms.Guess, Record, ms.TuningReport]
    assert tuned.report.best is not None
    assert tuned.report.seconds == tuned.report.best.seconds


def test_a_few_trials_are_kept_nowhere_unless_a_database_is_named(
    program: ms.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = ms.compile(program, trials=3)
    a, b = data(program)
    np.testing.assert_array_equal(kernel(a, b), np.maximum(a @ b, 0))
    assert kernel.origin is Origin.MEASURED
    assert (kernel.report.records, list(tmp_path.iterdir())) == (3, [])
    assert kernel.report.guess.trace == str(ms.guess(program))


def test_a_few_trials_on_data_of_the_caller(runner: Runner) -> None:
    logs = ms.parse_program("program p[N=62](X: f32[N]) -> B: f32[N]:\n    B[i] = log(X[i])\n")
    with pytest.raises(MetaschedError, match=r"`inputs=\{NAME: \(low, high\)\}` for `X`"):
        ms.compile(logs, trials=1)
    other = ms.parse_program("program p[N=61](X: f32[N]) -> B: f32[N]:\n    B[i] = log(X[i])\n")
    kernel = ms.compile(other, trials=1, inputs={"X": (0.1, 2.0)})
    assert kernel.report.records == 1
    with pytest.raises(MetaschedError, match="only `trials` are measured"):
        ms.compile(other, inputs={"X": (0.1, 2.0)})  # type: ignore[call-overload]


def test_a_search_goes_on_from_a_few_trials(program: ms.Program, runner: Runner, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/t.db"
    assert ms.compile(program, trials=2, db=url).report.measured == 2
    assert ms.tune(program, trials=3, runner=runner, db=url).report.measured == 1
    again = ms.compile(program, trials=2, db=url)
    assert (again.report.measured, again.report.records) == (0, 3)
    other = ms.compile(program, trials=1, db=url, rules="cpu,-parallelize")
    assert "parallel(" not in str(other.trace)


def test_a_few_trials_are_not_slower_than_what_another_space_gave(
    program: ms.Program, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compile` from the same database takes the best over all spaces, and trials must not take that away."""
    url = f"sqlite:///{tmp_path}/t.db"
    own = ms.tune(program, trials=1, runner=runner, db=url, space=ms.parse_trace(TRACE))
    record = own.report.best
    monkeypatch.setattr(api, "_best_record", lambda *_: record)
    kernel = ms.compile(program, trials=1, db=url)
    assert (kernel.trace, kernel.origin, kernel.report.records) == (own.trace, Origin.MEASURED, 1)


def test_a_guess_of_other_rules(program: ms.Program) -> None:
    assert "parallel(" not in str(ms.guess(program, rules="cpu,-parallelize"))


def test_one_source_at_a_time(program: ms.Program) -> None:
    with pytest.raises(ms.MetaschedError, match="`trace` and `db` both say where the schedule comes from"):
        ms.compile(program, trace=ms.parse_trace(TRACE), db="sqlite:///x.db")
    with pytest.raises(ms.MetaschedError, match="`trace` says which schedule to take, and `trials` measures others"):
        ms.compile(program, trace=ms.parse_trace(TRACE), trials=16)
    with pytest.raises(ms.MetaschedError, match="trials is 0; at least one measurement is needed"):
        ms.compile(program, trials=0)
    with pytest.raises(ms.MetaschedError, match="`rules` are for a guess, and `trace` says which schedule to take"):
        ms.compile(program, trace=ms.parse_trace(TRACE), rules="cpu")
    with pytest.raises(ms.MetaschedError, match="`rules` are for a guess, and `db` says which"):
        ms.compile(program, db="sqlite:///x.db", rules="cpu")
    with pytest.raises(ms.MetaschedError, match="`knowledge` is for a guess, and `trace` says which schedule to take"):
        ms.compile(program, trace=ms.parse_trace(TRACE), knowledge="none")
    with pytest.raises(ms.MetaschedError, match="`knowledge` is for a guess, and `db` says which"):
        ms.compile(program, db="sqlite:///x.db", knowledge="none")
    with pytest.raises(ms.MetaschedError, match="`policy` says how to mend a trace, and a database has"):
        ms.compile(program, db="sqlite:///x.db", policy=ms.Policy.REPAIR)
    with pytest.raises(ms.MetaschedError, match="`policy` says how to mend a trace, and a guess is made"):
        ms.compile(program, policy=ms.Policy.REPAIR)
    with pytest.raises(ms.MetaschedError, match="`rules` and `space` both say what to search"):
        ms.tune(program, rules="cpu", space=lambda sch: None)


def test_a_database_that_is_not_there(program: ms.Program, tmp_path: Path) -> None:
    with pytest.raises(ms.MetaschedError, match="there is no database at"):
        ms.compile(program, db=f"sqlite:///{tmp_path}/none.db")
    assert not (tmp_path / "none.db").exists(), "asking makes no database"


def test_a_database_that_has_nothing_for_this_shape(program: ms.Program, runner: Runner, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/some.db"
    ms.tune(program, trials=1, runner=runner, db=db, rules=[])
    with pytest.raises(ms.NoRecord, match=re.escape("has no valid measurement of dense_relu[N=3, M=9, K=7]")):
        ms.compile(ms.parse_program(TEXT, N=3), db=db)


def test_tuning_keeps_what_it_measured(program: ms.Program, runner: Runner, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path}/tuned.db"
    seen: list[object] = []
    kernel = ms.tune(program, trials=2, runner=runner, db=db, progress=seen.append)
    a, b = data(program)
    np.testing.assert_array_equal(kernel(a, b), np.maximum(a @ b, 0))
    assert kernel.origin is Origin.MEASURED
    assert len(seen) >= 2
    again = ms.tune(program, trials=2, runner=runner, db=db)
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


def test_tuning_a_module(program: ms.Program, runner: Runner, tmp_path: Path) -> None:
    def mine(sch: ms.Schedule) -> None:
        i, *_ = sch.get_loops(sch.get_block("dense"))
        sch.split(i, sch.sample_tile(i))

    kernel = ms.tune(program, trials=1, runner=runner, db=f"sqlite:///{tmp_path}/mine.db", space=mine)
    assert kernel.trace is not None
    assert [i.op for i in kernel.trace.instructions] == ["get_block", "get_loops", "sample_tile", "split"]


def test_tuning_the_holes_of_a_trace(program: ms.Program, runner: Runner, tmp_path: Path) -> None:
    """What is decided stays; a search without conditions, or with others, has trials of its own."""
    url = f"sqlite:///{tmp_path / 'holes.db'}"
    trace = ms.parse_trace(TRACE)
    holes = ms.parse_trace(str(trace.with_decisions({"i": None})))
    kernel = ms.tune(program, trials=2, runner=runner, db=url, space=holes)
    assert kernel.report.records == 2
    assert not kernel.trace.with_decisions({"i": None}).diff(holes)
    assert kernel.trace.decisions["i"] is not None
    again = ms.tune(program, trials=2, runner=runner, db=url, space=holes)
    assert (again.report.measured, again.trace) == (0, kernel.trace)

    def module(sch: ms.Schedule) -> None:
        i, j, _ = sch.get_loops(sch.get_block("dense"))
        i0, _ = sch.split(i, sch.sample_tile(i), labels=["i0", "i1"])
        sch.parallel(i0)
        sch.vectorize(j, lanes=8)

    free = ms.tune(program, trials=3, runner=runner, db=url, space=module)
    assert (free.report.records, free.report.measured) == (3, 3)
    given = kernel.trace.decisions["i"]
    only = ms.tune(program, trials=1, runner=runner, db=url, space=ms.condition(module, {"i": given}))
    assert (only.report.measured, only.trace) == (1, kernel.trace)
    again = ms.tune(program, trials=1, runner=runner, db=url, space=ms.condition(module, {"i": given}))
    assert (again.report.measured, again.trace) == (0, kernel.trace)
    traces = Counter(r.trace for r in recorded(url, program) if r.role is Role.CANDIDATE)
    assert set(traces.values()) == {1}, "what another space has shown is not measured again"


def recorded(url: str, program: ms.Program) -> list[Record]:
    with open_database(url) as database:
        return database.records(TaskKey.of(program, ms.Target.detect()))


RENAMED = """program mm[P=11, Q=9, R=7](X: f32[P, R], Y: f32[R, Q]) -> Z: f32[P, Q]:
    prod: W[x, y] = sum[z](X[x, z] * Y[z, y])
    act: Z[u, v] = max(W[u, v], 0)
"""


def test_a_program_under_other_names_finds_what_was_tuned(program: ms.Program, runner: Runner, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'names.db'}"
    renamed = ms.parse_program(RENAMED)
    assert renamed.structural_hash() == program.structural_hash()
    kernel = ms.tune(program, trials=2, runner=runner, db=url, rules="cpu")
    a, b = data(program)
    found = ms.compile(renamed, db=url)
    again = ms.tune(renamed, trials=2, runner=runner, db=url, rules="cpu")
    assert again.report.measured == 0
    more = ms.tune(renamed, trials=3, runner=runner, db=url, rules="cpu")
    assert (more.report.records, more.report.measured) == (3, 1)
    for other in (found, again, more):
        assert other.trace.apply_to(renamed).repairs == []
        assert not {"dense", "relu", "A", "B", "i", "j", "k"} & names_in(other.trace)
        np.testing.assert_array_equal(other(a, b), np.maximum(a @ b, 0))
    if found.trace.instructions:
        assert [i.op for i in found.trace.instructions] == [i.op for i in kernel.trace.instructions]
    (task,) = [s for s in stats(url) if s.records]
    assert task.best_seconds == ms.compile(renamed, db=url).report.seconds == ms.compile(program, db=url).report.seconds


def stats(url: str) -> tuple[TaskStats, ...]:
    with open_database(url, Access.READ) as database:
        return database.stats().tasks


def names_in(trace: ms.Trace) -> set[str]:
    """Every word of a trace but in what it is of."""
    return set(re.findall(r"\w+", str(trace).partition(":")[2])) - {"choose"}


def test_the_best_of_another_version_is_taken_and_said_until_this_one_has_measured(
    program: ms.Program, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'upgrade.db'}"
    with monkeypatch.context() as patch:
        for module in ("record", "best"):
            patch.setattr(f"metasched.database.{module}.code_version", lambda: "metasched 0")
        patch.setattr("metasched.search.task_search.code_version", lambda: "metasched 0")
        tuned = ms.tune(program, trials=2, runner=runner, db=url, rules="cpu")
    kernel = ms.compile(program, db=url)
    assert kernel.trace == tuned.trace
    assert "timed with metasched 0; tuning again times it anew" in repr(kernel.report)
    again = ms.tune(program, trials=2, runner=runner, db=url, rules="cpu")
    assert again.report.measured == 2
    now = [r for r in recorded(url, program) if r.is_current]
    assert str(tuned.trace) in [r.trace for r in now], "what was best is timed again"
    kernel = ms.compile(program, db=url)
    assert kernel.report.is_current
    assert "timed with" not in repr(kernel.report)


def test_the_best_of_another_version_is_timed_again_where_another_space_is_searched(
    program: ms.Program, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'upgrade.db'}"
    with monkeypatch.context() as patch:
        for module in ("record", "best"):
            patch.setattr(f"metasched.database.{module}.code_version", lambda: "metasched 0")
        patch.setattr("metasched.search.task_search.code_version", lambda: "metasched 0")
        tuned = ms.tune(program, trials=2, runner=runner, db=url, rules="cpu")

    def module(sch: ms.Schedule) -> None:
        i, *_ = sch.get_loops(sch.get_block("dense"))
        sch.split(i, sch.sample_tile(i))

    report = ms.tune(program, trials=2, runner=runner, db=url, space=module).report
    assert (report.records, report.measured) == (2, 2)
    assert ms.compile(program, db=url).report.is_current
    found = [r for r in recorded(url, program) if r.is_current and r.trace == str(tuned.trace)]
    assert len(found) == 1, "it is not lost, though this space does not hold it"
    assert ms.tune(program, trials=2, runner=runner, db=url, space=module).report.measured == 0


def test_conditions_are_checked_before_anything_starts(program: ms.Program, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'wrong.db'}"
    with pytest.raises(ms.ScheduleError, match=r'no sketch of dense_relu.* has a random variable at "nowhere"'):
        ms.tune(program, db=url, space=ms.condition("cpu", {"nowhere": 1}))
    assert not (tmp_path / "wrong.db").exists()


def test_arguments_are_checked_where_nothing_is_left_to_measure(
    program: ms.Program, runner: Runner, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'enough.db'}"
    ms.tune(program, trials=1, runner=runner, db=url, rules="vectorize")

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
    with pytest.raises(ms.KernelError, match="the range of `A`"):
        ms.tune(program, trials=1, runner=runner, db=url, rules="vectorize", inputs={"A": (1, 0)})
    with pytest.raises(MetaschedError, match="`rules` and `module` both say what to search"):
        ms.space(program, "cpu", module=module)
    with pytest.raises(MetaschedError, match="nowhere"):
        ms.tune(program, trials=1, runner=runner, db=url, space=module)


def test_what_tuning_leaves_is_never_slower_than_the_guess(program: ms.Program, runner: Runner, tmp_path: Path) -> None:
    """A space of no rules has the plainest schedule alone, which `tune` returns, and nobody else is given."""
    url = f"sqlite:///{tmp_path / 'worse.db'}"
    plain = ms.tune(program, trials=1, runner=runner, db=url, rules=[])
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


@pytest.mark.parametrize("seed", ["a", 1.5, None, -1, 2**63, True])
def test_a_seed_is_checked_before_anything_starts(program: ms.Program, seed: object, tmp_path: Path) -> None:
    said = re.escape(f"seed is {seed!r}; it is an integer from 0 to 2**63 - 1")
    with pytest.raises(MetaschedError, match=said):
        ms.tune(program, trials=1, seed=seed, db=f"sqlite:///{tmp_path}/none.db")  # type: ignore[arg-type]
    with pytest.raises(MetaschedError, match=said):
        ms.guess(program, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(MetaschedError, match=said):
        ms.space(program, seed=seed)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_report_of_a_repaired_trace_is_for_a_person(program: ms.Program) -> None:
    text = 'dense = get_block("dense")\n    i, j, k = get_loops(dense)\n    t, u ~ sample_tile(i) @ "i" := [_, 5000]'
    header = str(ms.Schedule(program).trace).strip()
    kernel = ms.compile(program, trace=ms.parse_trace(f"{header}\n    {text}"), policy=ms.Policy.REPAIR)
    assert str(kernel.report).startswith('repaired 1 decision:\n    "i": [_, 5000] -> [_, ')
