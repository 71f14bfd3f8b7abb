"""Features see where elements are in memory."""

from __future__ import annotations

import numpy as np

from metasched.cost.features import NAMES, FeatureProgram
from metasched.ir.nodes import Func
from metasched.lang import parse_program
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from metasched.schedule.trace import Schedule
from metasched.target import Target

MATMUL = """
program matmul[N=64](A: f32[N, 1024], B: f32[1024, 512]) -> C: f32[N, 512]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def feature(func: Func, target: Target, name: str) -> float:
    return float(FeatureProgram(func, (), target)(np.zeros((1, 0), np.int64))[0, NAMES.index(name)])


def tiled(sch: Schedule) -> None:
    """C by tiles of 16 columns, its reduction inside."""
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i, j0, k, j1)
    sch.vectorize(j1, lanes=16)


def reads(sch: Schedule) -> list[str]:
    """The buffers of the block `C`, the store first, as features number them."""
    names = list(dict.fromkeys(r.buffer for r in sch.describe(sch.get_block("C")).reads))
    return ["C", *names]


def matmul() -> Schedule:
    return Schedule(parse_program(MATMUL), seed=0)


def test_panels_are_read_in_one_run(target: Target) -> None:
    plain, packed = matmul(), matmul()
    for sch in (plain, packed):
        copy = sch.cache_read(sch.get_block("C"), "B")
        if sch is packed:
            sch.transform_layout(copy, "k, j -> j//16, k, j%16")
        tiled(sch)
    at = reads(plain).index("B_global")
    said = [feature(sch.func, target, f"s0.b{at}.run_bytes") for sch in (plain, packed)]
    assert said[0] < said[1]
    steps = [feature(sch.func, target, f"s0.b{at}.lane_step") for sch in (plain, packed)]
    assert steps[0] == steps[1]


def test_lanes_of_units_that_lie_apart_are_no_neighbours(target: Target) -> None:
    """Fours of 16 rows, as an instruction takes them: element by element, or a run of each row for four copies."""
    text = "program t[N=64, M=64](A: i8[N, M]) -> B: i8[N, M]:\n    B[i, j] = A[i, j]"
    cycles = {}
    for way in ("by element", "in runs", "neighbours"):
        sch = Schedule(parse_program(text), seed=0)
        copy = sch.cache_read(sch.get_block("B"), "A")
        i, j = sch.get_loops(copy)
        if way != "neighbours":
            sch.transform_layout(copy, "i, j -> i//16, j//4, i%16, j%4")
            (i0, i1), (j0, j1, j2) = sch.split(i, [None, 16]), sch.split(j, [None, 4, 4])
            sch.reorder(i0, j0, j1, i1, j2)
            j = sch.fuse(i1, j2)
            if way == "in runs":
                sch.unroll(j1)
        for loop in (j, sch.get_loops(sch.get_block("B"))[1]):
            sch.vectorize(loop, lanes=64)
        cycles[way] = 2 ** feature(sch.func, target, "all.core_cycles")
    # Half of them are those of what reads the copy, which is the same each time.
    assert cycles["neighbours"] < cycles["in runs"] < 0.6 * cycles["by element"]


def test_rows_that_are_aligned_do_not_collide(target: Target) -> None:
    plain, aligned = matmul(), matmul()
    for sch in (plain, aligned):
        block = sch.get_block("C")
        copy = sch.cache_read(block, "A")
        if sch is aligned:
            sch.storage_align(copy, 0, 1024, 16)
        i, j, k = sch.get_loops(block)
        sch.reorder(k, j, i)
    at = reads(plain).index("A_global")
    said = [feature(sch.func, target, f"s0.b{at}.l1_conflicts") for sch in (plain, aligned)]
    assert said[1] < said[0]


def test_free_tile_sizes_give_the_features_of_each_candidate(target: Target) -> None:
    def build(sch: Schedule) -> None:
        block = sch.get_block("C")
        copy = sch.cache_read(block, "B")
        sch.transform_layout(copy, "k, j -> j//16, k, j%16")
        i, j, k = sch.get_loops(block)
        j0, j1 = sch.split(j, [None, sch.sample_categorical([4, 16, 64], name="width")])
        sch.storage_align(copy, 0, 64, sch.sample_categorical([0, 16], name="gap"))
        sch.reorder(i, j0, k, j1)

    program = parse_program(MATMUL)
    symbolic = Schedule(program, handler=Symbolic(DrawFromPrior(0)))
    build(symbolic)
    columns = tuple(sorted(symbolic.context.free))
    rows = np.array([[w, g] for w in (4, 16, 64) for g in (0, 16)], np.int64)
    order = [s.site.address for s in symbolic.sites]
    assert order == ["width", "gap"]
    labels = [s.outputs[0] for s in symbolic.sites]
    rows = rows[:, [labels.index(c) for c in columns]]
    found = FeatureProgram(symbolic.func, columns, target)(rows)
    for row, features in zip(rows, found, strict=True):
        decisions = dict(zip(columns, row, strict=True))
        values = {address: int(decisions[label]) for address, label in zip(order, labels, strict=True)}
        concrete = symbolic.trace.with_decisions(values).apply_to(program)
        alone = FeatureProgram(concrete.func, (), target)(np.zeros((1, 0), np.int64))[0]
        np.testing.assert_allclose(features, alone, rtol=1e-5)
