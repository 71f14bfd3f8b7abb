"""A product with weights, from its space to the command line: free where they are packed ahead, not where in a call."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.cli.main import main
from metasched.cost.expectation import expectation_of
from metasched.database import Access, open_database
from metasched.database.record import TaskKey

TEXT = """program product[M=4, N=256, K=256](A: f32[M, K], const B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def packing(sch: ms.Schedule) -> None:
    c = sch.get_block("C")
    place = sch.choose("place", ["root", "tile"])
    copy = sch.cache_read(c, "B")
    sch.transform_layout(copy, "k, j -> j//32, k, j%32")
    i, j, k = sch.get_loops(c)
    j0, j1 = sch.split(j, [None, 32])
    sch.reorder(j0, k, i, j1)
    sch.vectorize(j1, lanes=16)
    sch.unroll(i)
    if place == "tile":
        sch.compute_at(copy, j0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program, and a database in which both places of the copy were measured."""
    path = tmp_path_factory.mktemp("weights")
    (path / "product.ms").write_text(TEXT)
    ms.tune(ms.parse_program(TEXT), trials=4, space=packing, db=f"sqlite:///{path}/t.db", progress=False)
    return path


def test_each_place_is_costed_by_what_a_call_pays() -> None:
    program = ms.parse_program(TEXT)
    target = ms.Target.detect(threads=1)
    by_place = {sketch.structure["place"]: sketch.func for sketch in ms.space(program, packing)}
    root, tile = (expectation_of(by_place[place], target) for place in ("root", "tile"))
    assert root.cycles < tile.cycles
    assert root.prologue_cycles > 0
    assert tile.prologue_cycles == 0


def test_each_place_is_timed_by_what_a_call_pays(folder: Path) -> None:
    program = ms.parse_program(TEXT)
    with open_database(f"sqlite:///{folder}/t.db", Access.READ) as database:
        records = database.records(TaskKey.of(program, ms.Target.detect()))
        other = ms.parse_program(TEXT.replace("const ", ""))
        assert database.records(TaskKey.of(other, ms.Target.detect())) == []
    found = {place: [r for r in records if f':= "{place}"' in r.trace] for place in ("root", "tile")}
    assert all(found.values())
    assert all(r.failure is None for of_place in found.values() for r in of_place)
    assert all(r.prologue_seconds is not None for r in found["root"])
    assert all(r.prologue_seconds is None for r in found["tile"])


def test_the_command_line_shows_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    trace = next(str(s.trace) for s in ms.space(ms.parse_program(TEXT), packing) if s.structure["place"] == "root")
    (folder / "root.trace").write_text(trace)
    assert main(["replay", "product.ms", "--trace", "root.trace", "--time", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["prologue_ms"] > 0
    assert said["failure"] is None
    assert main(["replay", "product.ms", "--trace", "root.trace", "--time"]) == 0
    assert "once for constant arguments" in capsys.readouterr().err
    best = ms.compile(ms.parse_program(TEXT), db="sqlite:///t.db").report
    assert main(["db", "stats", "--db", "sqlite:///t.db", "--json"]) == 0
    stats = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    once = None if best.prologue_seconds is None else best.prologue_seconds * 1e3
    assert [task["best_prologue_ms"] for task in stats] == [once]


def test_the_best_kernel_is_called_as_it_was_timed(folder: Path) -> None:
    kernel = ms.compile(ms.parse_program(TEXT), db=f"sqlite:///{folder}/t.db")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 256), (256, 256)))
    packed = kernel.pack(b)
    np.testing.assert_array_equal(packed(a), kernel(a, b))
    np.testing.assert_allclose(packed(a), a @ b, rtol=1e-4, atol=1e-4)
