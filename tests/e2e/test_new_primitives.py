"""A primitive or a random variable is one file: nothing else names it, and it works everywhere that others do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
import metasched.schedule.primitives as package
from metasched.lang.instructions import HOLE
from metasched.operators.batched_trace import for_batch
from metasched.operators.batches import batches
from metasched.schedule.primitive import registry
from metasched.schedule.trace_renaming import in_names_of
from metasched.search.rounds.population import crossover
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, fails, program
from tests.support.structural import same
from tests.unit.test_docs import generator

EVEN = '''
"""sample_even: an even size of a tile."""

from dataclasses import dataclass

import numpy as np

from metasched.ir.integers.affine import ZERO, simplify
from metasched.ir.nodes import Binary, BinOp
from metasched.lang.instructions import HOLE
from metasched.schedule.batching import unchanged
from metasched.schedule.distributions.factors import Factors
from metasched.schedule.kinds import LoopName, Number
from metasched.schedule.context import Context
from metasched.schedule.primitive import sampler


@dataclass(frozen=True)
class Even(Factors):
    """Support: an even inner size, at most `most`. Prior: uniform."""

    most: int

    def contains(self, decision):
        return self.well_formed(decision) and decision[1] % 2 == 0 and decision[1] <= self.most

    def conditions(self, decision):
        return (self.contains(decision),)

    def support(self):
        return f"an even size, at most {self.most}"

    def sample_rows(self, rng, extents):
        return 2 * rng.integers(1, self.most // 2 + 1, size=(len(extents), 1))

    def repair_rows(self, rows, extents):
        return np.clip((rows + 1) // 2 * 2, 2, self.most)

    def mutate_rows(self, rng, rows, extents):
        return self.sample_rows(rng, extents)


def _outside(given, decision):
    odd = isinstance(decision, tuple) and isinstance(decision[-1], int) and decision[-1] % 2
    return "an even size" if odd else None


@sampler(in_batches=unchanged, outside_support=_outside)
def sample_even(ctx: Context, loop: LoopName, most: Number = 8) -> Even:
    """Two sizes to split a loop by, the inner one even.

    Args:
        loop: the loop.
        most: the largest inner size.
    """
    return Even(ctx.loop("sample_even", loop).extent, 2, most)
'''

STYLE = '''
"""sample_style: how to go on with a block."""

from metasched.schedule.context import Context
from metasched.schedule.distributions.choice import ChoiceDistribution
from metasched.schedule.kinds import BlockName
from metasched.schedule.primitive import sampler


@sampler
def sample_style(ctx: Context, block: BlockName) -> ChoiceDistribution:
    """How to go on with a block: "rows" or "columns".

    Args:
        block: the block.
    """
    ctx.block("sample_style", block)
    return ChoiceDistribution(("rows", "columns"))
'''

TOSS = '''
"""toss: one of two options."""

from metasched.schedule.context import Context
from metasched.schedule.distributions.choice import ChoiceDistribution
from metasched.schedule.kinds import Literal
from metasched.schedule.primitive import sampler


@sampler(named=True)
def toss(ctx: Context, *options: Literal) -> ChoiceDistribution:
    """One of the first two options.

    Args:
        options: what to choose from.
    """
    return ChoiceDistribution(options[:2])
'''

HALVES = '''
"""halves: a loop as two."""

from metasched.ir.integers.affine import const
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.primitives.split import split


@primitive(in_batches=unchanged, varying_loops=lambda given: [given["loop"], False])
def halves(ctx: Context, loop: LoopName) -> tuple[LoopName, ...]:
    """Split a loop into pairs.

    Args:
        loop: the loop.

    Requires:
        What split requires.
    """
    return split(ctx, loop, (None, const(2)))
'''

FILES = {"sample_even": EVEN, "sample_style": STYLE, "toss": TOSS, "halves": HALVES}
PROGRAM = program(DENSE_RELU)
TEXT = """
module main():
    dense = get_block("dense")
    i, j, _ = get_loops(dense)
    style ~ sample_style(dense)
    pick ~ toss("here", "there", "nowhere") @ "where"
    loop = i if style == "rows" else j
    x, y ~ sample_even(loop, most=6) @ "size"
    _, inner = split(loop, [x, y])
    if pick == "here":
        halves(inner)
"""


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    registry.cache_clear()
    yield
    registry.cache_clear()
    for name in FILES:
        sys.modules.pop(f"{package.__name__}.{name}", None)
        if hasattr(package, name):
            delattr(package, name)


def tiled(sch: ms.Schedule) -> None:
    dense = sch.get_block("dense")
    i, j, _ = sch.get_loops(dense)
    style = sch.sample_style(dense)  # type: ignore[attr-defined]
    pick = sch.toss("where", ["here", "there", "nowhere"])  # type: ignore[attr-defined]
    loop = i if style == "rows" else j
    sizes = sch.sample_even(loop, most=6, name="size")  # type: ignore[attr-defined]
    _, inner = sch.split(loop, sizes)
    if pick == "here":
        sch.halves(inner)  # type: ignore[attr-defined]


def test_a_python_module_and_a_text_module_are_the_same_space() -> None:
    in_python = ms.space(PROGRAM, tiled)
    in_text = ms.space(PROGRAM, ms.parse_module(TEXT, "main"))
    assert len(in_python) == len(in_text) == 4
    shown = {str(sketch) for sketch in in_python}
    assert {str(sketch) for sketch in in_text} == shown
    # Sizes are free: one column each, and the extents are expressions over it.
    assert all(len(sketch.columns) == 1 for sketch in in_python)
    assert any("grid(ceildiv(11, t1), t1," in text for text in shown)
    assert all(sketch.structure.keys() == {"dense", "where"} for sketch in in_python)


def test_populations() -> None:
    rng = np.random.default_rng(0)
    for sketch in ms.space(PROGRAM, tiled):
        rows = sketch.repair(sketch.sample(rng, 50))
        mixed = sketch.repair(crossover(rng, sketch, rows, sketch.mutate(rng, rows[::-1])))  # type: ignore[arg-type]
        assert sketch.mask(mixed).all()
        assert set(mixed[:, 0]) == {2, 4, 6}
        checked(sketch.trace_of(mixed[0]).apply_to(PROGRAM))


def test_traces() -> None:
    rng = np.random.default_rng(0)
    found = ms.space(PROGRAM, tiled)
    trace = next(iter(found)).trace_of((4,))
    for again in (
        ms.parse_trace(str(trace)),
        ms.Trace.from_json(trace.as_json()),
        ms.Trace.from_python(trace.as_python(PROGRAM)),
    ):
        assert again == trace
        assert again.apply_to(PROGRAM).trace == trace
    assert trace.decisions["size"] == (HOLE, 4)
    assert trace.problems(PROGRAM) == ()
    called: dict[str, object] = {}
    exec(trace.as_python(PROGRAM), called)
    schedule = ms.Schedule(PROGRAM)
    called["schedule"](schedule)  # type: ignore[operator]
    assert schedule.trace == trace
    for _ in range(20):
        changed = found.mutate(rng, trace)
        assert changed.decisions["size"] in [(HOLE, size) for size in (2, 4, 6)]
        same(PROGRAM.func, changed.apply_to(PROGRAM).func)


def test_lines_that_python_branched_on_stay() -> None:
    trace = ms.space(PROGRAM, tiled)[0].trace_of((4,))
    kept = {line.op for line in trace.simplified().instructions}
    assert {"sample_style", "toss"} <= kept
    schedule = ms.Schedule(PROGRAM)

    def attempt() -> None:
        with schedule.all_or_nothing():
            dense = schedule.get_block("dense")
            schedule.sample_style(dense)  # type: ignore[attr-defined]
            schedule.split(schedule.get_loops(dense)[0], [None])

    with pytest.raises(ms.ScheduleError, match="fewer than two factors"):
        attempt()
    assert [line.op for line in schedule.trace.instructions] == ["sample_style"]


def test_conditions() -> None:
    given = ms.space(PROGRAM, ms.condition(tiled, {"size": [None, 4], "where": "there"}))
    assert len(given) == 2
    assert all(sketch.columns == () for sketch in given)
    assert all("4" in str(sketch) for sketch in given)
    with pytest.raises(ms.ScheduleError, match="an even size, at most 6"):
        len(ms.space(PROGRAM, ms.condition(tiled, {"size": [None, 5]})))
    trace = given[0].trace_of(())
    open_size = ms.space(PROGRAM, trace.with_decisions({"size": None}))
    assert [len(sketch.columns) for sketch in open_size] == [1]
    with pytest.raises(ms.ScheduleError, match="sample_style: line 4 of the trace leaves a choice open"):
        ms.space(PROGRAM, trace.with_decisions({"dense": None}))


def test_other_names() -> None:
    trace = ms.space(PROGRAM, tiled)[0].trace_of((4,))
    other = program(
        """
program other[N=11, M=9, K=7](X: f32[N, K], Y: f32[K, M]) -> Z: f32[N, M]:
    product: T[u, v] = sum[w](X[u, w] * Y[w, v])
    last:    Z[u, v] = max(T[u, v], 0)
"""
    )
    renamed = in_names_of(trace, PROGRAM, other)
    assert renamed.decisions == {"product": "rows", "where": "here", "size": (HOLE, 4)}
    same(other.func, renamed.apply_to(other).func)


def test_batches() -> None:
    whole = program("program many[B=3, N=8, K=7](A: f32[B, N, K]) -> D: f32[B, N]:\n    D[b, i] = sum[k](A[b, i, k])\n")
    batch, *_ = batches(whole)
    schedule = ms.Schedule(batch.element)
    block = schedule.get_block(schedule.block_names()[0])
    i, _ = schedule.get_loops(block)
    _, inner = schedule.split(i, schedule.sample_even(i))  # type: ignore[attr-defined]
    schedule.halves(inner)  # type: ignore[attr-defined]
    carried = for_batch(schedule.trace, batch, whole, 2)
    assert {"sample_even", "halves"} <= {line.op for line in carried.instructions}
    same(whole.func, carried.apply_to(whole).func)
    schedule.sample_style(block)  # type: ignore[attr-defined]
    with fails("sample_style: it is not carried over to a batch"):
        for_batch(schedule.trace, batch, whole, 2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x, y ~ sample_even(i) := [_, 3]", r"the decision \[_, 3\] is not in the support \(an even size\)"),
        ("x, y ~ sample_even(i)\n    if y == 2: unroll(j)", "a condition cannot depend on `y`"),
        (
            "x, y ~ sample_even(i)\n    p, _ = halves(split(i, [x, y])[1])\n    if extent(p) == 1: unroll(p)",
            "`extent.p.` is not known",
        ),
        ("p, _ = halves()\n    unroll(p)", "`halves` misses its argument `loop`"),
        ("p, _ = split(i)\n    unroll(p)", "`split` misses its argument `factors`"),
        ("p, _ = halves(*[i, i], i)\n    if extent(p) == nothing: unroll(p)", "`nothing` is not defined"),
    ],
)
def test_mistakes_in_texts_show_before_they_run(line: str, message: str) -> None:
    text = f"module m(b):\n    i, j = get_loops(b)\n    unroll(j)\n    {line}\n"
    with pytest.raises(ms.LanguageError, match=message):
        ms.parse_module(text)


def test_a_result_on_which_modules_branch_is_no_mistake() -> None:
    text = 'module m(b):\n    s ~ sample_style(b)\n    if s == "rows": annotate(b, "unroll_limit", 4)\n'
    module = ms.parse_module(text)
    seen = set()
    for seed in range(16):
        schedule = ms.Schedule(PROGRAM, seed=seed)
        module(schedule, schedule.get_block("dense"))
        shown = str(schedule.trace)
        assert ("annotate" in shown) is (':= "rows"' in shown)
        seen.add("annotate" in shown)
    assert seen == {True, False}


def test_types_and_errors() -> None:
    types = generator().methods_stub()
    assert "def sample_even(self, loop: LoopRV, most: int = 8, *, name" in types
    assert "-> list[Int]:" in types.partition("def sample_even(")[2].partition("\n")[0]
    assert "-> str | float | bool:" in types.partition("def sample_style(")[2].partition("\n")[0]
    with fails("toss: it takes a name and a list of options", "toss(name, options)"):
        ms.Schedule(PROGRAM).toss("where")  # type: ignore[attr-defined]
