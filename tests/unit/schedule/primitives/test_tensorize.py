from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from metasched.cost.features import FeatureProgram, features_of
from metasched.errors import ScheduleError
from metasched.lang import parse_program
from metasched.schedule.context import Context
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.tensorize import tensorize
from metasched.schedule.tensor import in_vector_form, intrinsic_of, intrinsics
from metasched.schedule.trace import Schedule
from metasched.space.source import FromModule
from metasched.space.space import Space
from tests.support.schedules import checked, fails, loops_of, schedule
from tests.support.structural import at_values, body, refused, same, split, start, vector
from tests.support.targets import AVX512

PACKED = """
program packed[N=32, K=8, T=u8](A: T[3, K], B: i8[K // 4, N, 4]) -> C: i32[3, N]:
    dot: C[i, j] = sum[k](i32(B[k // 4, j, k % 4]) * i32(A[i, k]))
"""
TRANSPOSED = """
program transposed[N=32, K=8](A: u8[N, K], B: i8[N, K]) -> C: i32[N]:
    dot: C[j] = sum[k](i32(A[0, k]) * i32(B[j, k]))
"""


def tiled(text: str = PACKED) -> Context:
    ctx = start(text)
    split(ctx, "j", 16)
    split(ctx, "k", 4)
    loops = ("i", "j_0", "k_0", "j_1", "k_1") if "i" in ctx.taken else ("j_0", "k_0", "j_1", "k_1")
    reorder(ctx, *loops)
    return ctx


def test_the_loops_stay_and_the_outermost_is_marked() -> None:
    ctx = tiled()
    before = ctx.func
    tensorize(ctx, "j_1", "dot_u8i8_vnni")
    same(before, ctx.func)
    assert (
        body(ctx.func)
        == """
for i, j_0, k_0 in grid(3, 2, 2):
    for j_1 in 16:  @tensorize("dot_u8i8_vnni")
        for k_1 in 4:
            dot: C[i, j] += i32(B[k // 4, j, k % 4]) * i32(A[i, k])
                init 0  with j = j_0*16 + j_1, k = k_0*4 + k_1
"""
    )


def test_what_models_of_cost_see_is_a_vector_loop_inside_unrolled_ones() -> None:
    ctx = tiled()
    tensorize(ctx, "j_1", "dot_u8i8_vnni")
    seen = in_vector_form(ctx.func)
    same(ctx.func, seen)
    assert [line.strip() for line in body(seen).splitlines()[2:4]] == [
        'unrolled k_1 in 4:  @tensorize("dot_u8i8_vnni")',
        "vectorized(16) j_1 in 16:",
    ]


def test_loops_in_another_order_and_any_stride_of_an_outer_axis() -> None:
    ctx = start(TRANSPOSED)
    split(ctx, "j", 16)
    split(ctx, "k", 4)
    reorder(ctx, "j_0", "k_0", "k_1", "j_1")
    tensorize(ctx, "k_1", "dot_u8i8_vnni")


def test_free_extents_become_constraints() -> None:
    ctx = start(PACKED)
    split(ctx, "j", "t")
    split(ctx, "k", 4)
    reorder(ctx, "i", "j_0", "k_0", "j_1", "k_1")
    tensorize(ctx, "j_1", "dot_u8i8_vnni")
    assert [c.reason for c in ctx.constraints] == [
        "tensorize: the nest of loop `j_1` is not `dot_u8i8_vnni`: loop `j_1` has t iterations, the intrinsic's `j` 16",
        "tensorize: a guard of block `dot` leaves out part of the nest",
    ]
    same(start(PACKED).func, at_values(ctx.func, {"t": 16}))


# --- what is refused -------------------------------------------------------------------------------------

DIFFERS = "the nest of loop `j_1` is not `dot_u8i8_vnni`: "


def test_an_intrinsic_that_is_not_there() -> None:
    with refused('there is no intrinsic "dot"'):
        tensorize(tiled(), "j_1", "dot")


def test_extents() -> None:
    ctx = start(PACKED)
    split(ctx, "j", 8)
    split(ctx, "k", 4)
    reorder(ctx, "i", "j_0", "k_0", "j_1", "k_1")
    with refused(DIFFERS + "loop `j_1` has 8 iterations, the intrinsic's `j` 16"):
        tensorize(ctx, "j_1", "dot_u8i8_vnni")


def test_number_of_loops() -> None:
    with refused(
        "the nest of loop `k_0` is not `dot_u8i8_vnni`: there are 3 loops from `k_0` inward, the intrinsic has 2"
    ):
        tensorize(tiled(), "k_0", "dot_u8i8_vnni")


def test_more_than_one_statement() -> None:
    text = """
    program two[N=16](A: f32[N]) -> C: f32[N]:
        a: B[i] = A[i] + 1
        b: C[i] = B[i] * 2
    """
    ctx = start(text)
    compute_at(ctx, "a", "i_b")
    with refused("the nest of loop `i_b` is not `dot_u8i8_vnni`: loop `i_b` holds more than one statement"):
        tensorize(ctx, "i_b", "dot_u8i8_vnni")


def test_element_types() -> None:
    text = PACKED.replace("T=u8", "T=i8").replace("A: T", "A: i8").replace(", T=i8", "")
    what = "its operands are i8 (`B`) and i8 (`A`), the intrinsic's u8 and i8"
    fitting = "`dot_i8i8_avxvnni`, `dot_i8i8_vnni`, `lanes_i8i8_avxvnni`, `lanes_i8i8_vnni` and `tile_i8i8_amx`"
    with refused(f"{DIFFERS}{what}; {fitting} would fit"):
        tensorize(tiled(text), "j_1", "dot_u8i8_vnni")


def test_element_type_of_the_result() -> None:
    text = PACKED.replace("i32", "i64")
    with refused(DIFFERS + "`C` is i64, the intrinsic's `C` i32"):
        tensorize(tiled(text), "j_1", "dot_u8i8_vnni")


def test_another_reduction() -> None:
    text = PACKED.replace("sum[k]", "max[k]")
    with refused(DIFFERS + "block `dot` is no reduction by `sum`"):
        tensorize(tiled(text), "j_1", "dot_u8i8_vnni")


def test_kinds_of_iteration() -> None:
    text = """
    program sums[N=16, K=4](A: u8[K], B: i8[N, K]) -> C: i32[1]:
        dot: C[z] = sum[j, k](i32(A[k]) * i32(B[j, k]))
    """
    with refused("the nest of loop `j` is not `dot_u8i8_vnni`: 2 of its loops reduce, of the intrinsic's 1"):
        tensorize(start(text), "j", "dot_u8i8_vnni")


def test_contiguity() -> None:
    text = """
    program strided[N=16, K=4](A: u8[K], B: i8[K, N]) -> C: i32[N]:
        dot: C[j] = sum[k](i32(A[k]) * i32(B[k, j]))
    """
    with pytest.raises(ScheduleError, match="`B` is not contiguous along loop `k`") as caught:
        tensorize(start(text), "j", "dot_u8i8_vnni")
    assert caught.value.hint.endswith('transform_layout(cache_read(block, "B"), "k, j -> k//4, j, k%4") makes them')
    assert repr(intrinsics()["dot_u8i8_vnni"]) == "<intrinsic dot_u8i8_vnni>"


def test_an_operand_that_goes_along_too_few_loops() -> None:
    text = """
    program narrow[N=16, K=4](A: u8[K], B: i8[K]) -> C: i32[N]:
        dot: C[j] = sum[k](i32(A[k]) * i32(B[k]))
    """
    with refused("the nest of loop `j` is not `dot_u8i8_vnni`: `B` does not go along loop `j`"):
        tensorize(start(text), "j", "dot_u8i8_vnni")


def test_an_operand_that_goes_along_too_many_loops() -> None:
    text = """
    program wide[N=16, K=4](A: u8[N, K], B: i8[N, K]) -> C: i32[N]:
        dot: C[j] = sum[k](i32(A[j, k]) * i32(B[j, k]))
    """
    with refused("the nest of loop `j` is not `dot_u8i8_vnni`: `A` is not read as the intrinsic's `A`: loop `j`"):
        tensorize(start(text), "j", "dot_u8i8_vnni")


def test_an_access_that_is_not_linear() -> None:
    text = """
    program folded[N=16, K=4](A: u8[K], B: i8[N, 2]) -> C: i32[N]:
        dot: C[j] = sum[k](i32(A[k]) * i32(B[j, k % 2]))
    """
    with refused("the nest of loop `j` is not `dot_u8i8_vnni`: `B` is not linear in the loops: k % 2"):
        tensorize(start(text), "j", "dot_u8i8_vnni")


def test_a_loop_that_does_not_run_serially() -> None:
    ctx = tiled()
    vector(ctx, "j_1")
    with refused(DIFFERS + "loop `j_1` is vectorized"):
        tensorize(ctx, "j_1", "dot_u8i8_vnni")


def test_a_vector_loop_around() -> None:
    ctx = tiled()
    vector(ctx, "i")
    with refused("loop `i` around it is vectorized"):
        tensorize(ctx, "j_1", "dot_u8i8_vnni")


def test_guards() -> None:
    ctx = start(PACKED.replace("N=32", "N=30"))
    split(ctx, "j", 16)
    split(ctx, "k", 4)
    reorder(ctx, "i", "j_0", "k_0", "j_1", "k_1")
    with refused("a guard of block `dot` leaves out part of the nest"):
        tensorize(ctx, "j_1", "dot_u8i8_vnni")


def sampled(sch: Schedule) -> None:
    """Tiles of any sizes around the instruction's own, which divides the padded extents."""
    block = sch.get_block("dot")
    copies = sch.pad_einsum(block, [1, 16, 4])
    sch.transform_layout(copies[1], "k, j -> k//4, j, k%4")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    i_out, i_in = sch.split(i, sch.sample_tile(i, parts=2))
    j_out, j_in = sch.split(j0, sch.sample_tile(j0, parts=2))
    k_out, k_in = sch.split(k0, sch.sample_tile(k0, parts=2))
    sch.reorder(i_out, j_out, k_out, k_in, i_in, j_in, j1, k1)
    sch.tensorize(j1, "dot_u8i8_vnni")
    sch.unroll(i_in)
    sch.unroll(j_in)


PADDED = """
program padded[N=30, M=70, K=37](A: u8[N, K], B: i8[K, M]) -> C: i32[N, M]:
    dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
"""


def test_guards_of_tiles_around_it_leave_out_all_of_it_or_nothing() -> None:
    sch = schedule(PADDED)
    sampled(sch)
    trace = sch.trace.with_decisions({"i": [None, 7], "j_0": [None, 2], "k_0": [None, 3]})
    checked(trace.apply_to(sch.program))


def test_sampled_tiles_around_it_need_not_divide() -> None:
    program = parse_program(PADDED)
    sketch = Space(program, FromModule(sampled))[0]
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 16))
    assert sketch.mask(rows).all()
    found = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
    for row, features in zip(rows, found, strict=True):
        np.testing.assert_allclose(features, features_of(sketch.trace_of(row).apply_to(program).func, AVX512), 1e-4)


# --- afterwards ------------------------------------------------------------------------------------------


def done() -> Schedule:
    sch = schedule(PACKED)
    i, j, k = loops_of(sch, "dot")
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.tensorize(j1, "dot_u8i8_vnni")
    return sch


KEPT = "the nest of loop `j_1` is tensorized as `dot_u8i8_vnni`, and would be no more: "


def test_its_trace_replays() -> None:
    checked(done())


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda s, j, k: s.split(j, [None, 4]), "there are 3 loops from `j_1_0` inward, the intrinsic has 2"),
        (lambda s, j, k: s.fuse(j, k), "there are 1 loops from `j_1_k_1` inward, the intrinsic has 2"),
        (lambda s, j, k: s.reorder(k, j), "there are 1 loops from `j_1` inward, the intrinsic has 2"),
        (lambda s, j, k: s.unroll(k), "loop `k_1` is unrolled"),
        (lambda s, j, k: s.vectorize(j, lanes=16), "loop `j_1` is vectorized"),
    ],
)
def test_later_steps_leave_it_alone(step, why: str) -> None:  # type: ignore[no-untyped-def]
    sch = done()
    before = sch.func
    j, k = loops_of(sch, "dot")[-2:]
    with pytest.raises(ScheduleError) as info:
        step(sch, j, k)
    assert KEPT + why in str(info.value)
    assert sch.func == before


def test_the_block_does_not_leave_it() -> None:
    sch = schedule(PACKED.replace("-> C: i32[3, N]", "-> D: i32[3, N]") + "    out: D[i, j] = C[i, j] + 1\n")
    i, j, k = loops_of(sch, "dot")
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i, j0, k0, j1, k1)
    sch.tensorize(j1, "dot_u8i8_vnni")
    with fails(
        "compute_at: the nest of loop `j_1` is tensorized as `dot_u8i8_vnni`, and block `dot` would leave it",
        "compute_at before tensorize, or take it back with unannotate",
    ):
        sch.compute_at(sch.get_block("dot"), loops_of(sch, "out")[0])


def test_it_can_be_taken_back() -> None:
    sch = done()
    j = loops_of(sch, "dot")[-2]
    sch.unannotate(j, "tensorize")
    sch.split(j, [None, 4])


def test_other_loops_may_change() -> None:
    sch = done()
    i, j0, k0, _, _ = loops_of(sch, "dot")
    sch.parallel(i)
    sch.unroll(k0)
    sch.annotate(j0, "unroll_limit", 4)
    checked(sch)


# --- descriptions ----------------------------------------------------------------------------------------


def described(**fields: object) -> ModuleType:
    module = ModuleType("dot", "What it is.")
    vars(module).update({"FEATURES": (), "PROGRAM": DOT, "VECTOR_BITS": 256, **fields})
    return module


DOT = """
program dot(A: f32[4], B: f32[8, 4]) -> C: f32[8]:
    C[j] = sum[k](A[k] * B[j, k])
"""


ROWS = """
program dot(A: f32[3, 4], B: f32[8, 4]) -> C: f32[3, 8]:
    C[i, j] = sum[k](A[i, k] * B[j, k])
"""


def test_a_description() -> None:
    found = intrinsic_of("dot", described())
    assert found.axes == ("k", "j")
    assert [x.buffer for x in found.operands] == ["C", "A", "B"]
    assert found.doc == "What it is."
    assert (found.throughput, found.latency, found.registers) == (1, 5, 0), "a cycle for its one vector"
    assert (found.products, found.rows) == (32, 1)


def test_what_an_intrinsic_costs() -> None:
    wide = intrinsic_of("dot", described(VECTOR_BITS=128))
    assert (wide.rows, wide.throughput, wide.latency) == (2, 2, 6)
    said = intrinsic_of("dot", described(THROUGHPUT=0.5, LATENCY=6, REGISTERS=1))
    assert (said.throughput, said.latency, said.registers) == (0.5, 6, 1)
    tiles = intrinsic_of("dot", described(VECTOR_BITS=0, TILES=True, PROGRAM=ROWS))
    assert (tiles.rows, tiles.throughput, tiles.latency, tiles.products) == (3, 3, 7, 96)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("dot", {"PROGRAM": 1}, r"intrinsic dot \(dot\): `PROGRAM` is int, not str"),
        ("dot", {"FEATURES": "avx2"}, r"intrinsic dot \(dot\): `FEATURES` is str, not tuple"),
        ("dot", {"__doc__": None}, "intrinsic dot: its file begins with documentation"),
        ("dot", {"TILE": True}, r"intrinsic dot \(dot\): there is no `TILE`\n  hint: did you mean `TILES`\?"),
        ("dot", {"RATE": 2}, "there is no `RATE`\n  hint: known are `FEATURES`, `PROGRAM`, `VECTOR_BITS`, `TILES`"),
        ("dot", {"VECTOR_BITS": 512}, "says 512, where the last axis of its output has 256 bits"),
        ("dot", {"VECTOR_BITS": 0}, "`VECTOR_BITS` is the size of its registers, and it says 0"),
        ("dot", {"TILES": True}, "it has `TILES`, whose size is not to be said, and `VECTOR_BITS`"),
        ("dot", {"THROUGHPUT": 0}, "`THROUGHPUT` is the cycles from one use to the next .* it says 0 and 4"),
        ("dot", {"THROUGHPUT": 4, "LATENCY": 2.5}, "as many or more; it says 4 and 2.5"),
        ("dot", {"THROUGHPUT": "2"}, "`THROUGHPUT` is str, not float or int"),
        ("dot", {"REGISTERS": -1}, "`REGISTERS` counts vectors, and it says -1"),
        ("dot", {"DENSE": {"B": 3}}, "`DENSE` counts the last axes of its operands"),
        ("other", {}, "has the name of the file"),
        ("dot", {"PROGRAM": DOT.replace("sum[k](A[k] * B[j, k])", "A[0] + B[j, 0]")}, "it reduces into an output"),
    ],
)
def test_a_description_that_lacks_something(name: str, fields: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        intrinsic_of(name, described(**fields))


def test_what_a_description_leaves_out_is_named() -> None:
    module = ModuleType("dot", "What it is.")
    module.__dict__["FEATURES"] = ()
    with pytest.raises(TypeError, match=r"intrinsic dot \(dot\): it does not say `PROGRAM`"):
        intrinsic_of("dot", module)


def test_every_description_says_what_it_needs() -> None:
    for name, intrinsic in intrinsics().items():
        assert intrinsic.name == name
        assert intrinsic.features
