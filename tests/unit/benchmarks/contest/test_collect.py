"""Which codes a table gets, with a runner that measures nothing, and the files that it is kept in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import metasched as ms
from benchmarks.contest import collect
from benchmarks.contest.described import described
from benchmarks.contest.stored import BRED, DRAWN, load, names_there
from metasched.cost.core import DEFAULT_CORE
from metasched.lang import parse_program
from metasched.measure.records import Failure, Lowered, MeasureCandidate, Measurement
from metasched.operators.suites import Case
from tests.support.targets import AVX512
from tests.unit.benchmarks.contest.conftest import PROGRAM


class _Small(Case):
    def program(self) -> ms.Program:
        return parse_program(PROGRAM)


class _Runner:
    """Two traces have the same code where their texts have the same hash; every ninth code does not run."""

    def __init__(self) -> None:
        self.measured: Counter[str] = Counter()

    def prepare(self, *given: object) -> None:
        pass

    def lower(self, program: ms.Program, trace: str, target: str) -> Future[Lowered]:
        code = str(int(sha256(trace.encode()).hexdigest(), 16) % 500)
        return _done(Lowered(MeasureCandidate(str(program), program.params, trace, target), code))

    def submit(self, *given: Any, lowered: Lowered, plan: object) -> Future[Measurement]:
        self.measured[str(lowered.code)] += 1
        failure = Failure("wrong-result") if int(str(lowered.code)) % 9 == 0 else None
        seconds = (1 + int(str(lowered.code))) * 1e-6
        visits = () if failure else ((seconds,), (1.01 * seconds,))
        return _done(Measurement(lowered.candidate, visits, False, failure, (), lowered.code))


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Case]:
    found = MappingProxyType({"small": _Small("product")})
    monkeypatch.setattr(collect, "TWELVE", found)
    monkeypatch.setattr(collect, "STRUCTURES", 3)
    monkeypatch.setattr(collect, "MOST_STRUCTURES", 5)
    monkeypatch.setattr(collect, "_STEP", 16)
    return found


def test_a_table_grows_by_codes_of_its_own_and_goes_on_where_it_ended(
    suite: Mapping[str, Case], tmp_path: Path
) -> None:
    runner = _Runner()

    def grown(count: int, kept: Path | None) -> None:
        collect.collect("small", runner, AVX512, count, float("inf"), tmp_path, kept)  # type: ignore[arg-type]

    grown(24, tmp_path / "kept")
    before = load("small", tmp_path)
    assert before is not None
    grown(40, tmp_path / "kept")
    grown(48, None)  # hashes are made again
    found = load("small", tmp_path)
    assert found is not None
    assert len(found) >= 40
    assert set(runner.measured.values()) == {1}, "no code was measured twice"
    assert [part.pool for part in found.parts] == [DRAWN, BRED]
    assert min(len(part.codes) for part in found.parts) >= 10
    assert found.drawn.failures["wrong-result"] > 0
    assert _rows(before) <= _rows(found)
    assert names_there(["small", "absent"], tmp_path) == ["small"]
    table = described(found, tmp_path / "kept", DEFAULT_CORE)
    assert len(table) == len(found)
    assert table.best_s == found.best_s
    again = described(found, tmp_path / "kept", DEFAULT_CORE)
    assert all(
        (mine.rows == theirs.rows).all() and np.array_equal(mine.features, theirs.features)
        for mine, theirs in zip(table.structures, again.structures, strict=True)
    )


def _rows(table: Any) -> set[tuple[str, tuple[int, ...], float]]:
    return {(part.sketches[code.sketch], code.row, code.first_s) for part in table.parts for code in part.codes}
