"""Lanes in another order than memory: loads of runs and shuffles where that is all there is to read, else gathers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from metasched.compiler.cpu.emit.accesses.shuffled_loads import (
    Runs,
    find_pieces,
    find_runs,
    find_shared_elements,
    find_span,
    find_splats,
)
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.lir_runner import Guarded

HOST = Target.detect(threads=1)


@pytest.mark.parametrize(
    ("offsets", "runs"),
    [
        ([0, 100, 1, 101, 2, 102, 3, 103], Runs((0, 100), 4, (0, 4, 1, 5, 2, 6, 3, 7), 4)),
        ([3, 2, 1, 0], Runs((0,), 4, (3, 2, 1, 0), 4)),
        ([7, 7, 8, 8, 9, 9, 10, 10], Runs((7,), 4, (0, 0, 1, 1, 2, 2, 3, 3), 4)),
        ([-4, -3, -2, -1], Runs((-4,), 4, (0, 1, 2, 3), 4)),
        ([4, 5, 6, 7, 8, 8], Runs((4,), 8, (0, 1, 2, 3, 4, 4), 5)),
        ([0, 2, 4, 6], None),  # elements between would be read for nothing
        ([0, 1, 2, 10, 11, 12], None),  # short
        ([0, 1, 2, 3, 10, 11, 12, 13, 14], None),  # not as long as one another
        ([n + 100 * m for m in range(3) for n in range(4)], None),  # three do not pair
        ([n + 100 * m for m in range(16) for n in range(4)], None),  # many
    ],
)
def test_runs(offsets: Sequence[int], runs: Runs | None) -> None:
    assert find_runs(offsets) == runs


@pytest.mark.parametrize(
    ("offsets", "runs"),
    [
        ([0, 2, 4, 6], Runs((0,), 8, (0, 2, 4, 6), 7)),
        ([5, 5, 9, 9], Runs((5,), 8, (0, 0, 4, 4), 5)),
        ([3, 2, 0, -3], Runs((-3,), 8, (6, 5, 3, 0), 7)),
        ([0, 5, 10, 15], Runs((0,), 16, (0, 5, 10, 15), 16)),
        ([0, 6, 12, 18], None),  # far apart
        ([0, 2], None),  # few
    ],
)
def test_spans(offsets: Sequence[int], runs: Runs | None) -> None:
    assert find_span(offsets) == runs


@pytest.mark.parametrize(
    ("offsets", "elements"),
    [
        ([3, 3, 3, 3], (3,)),
        ([3, 3, 3, 3, 9, 9, 9, 9], (3, 9)),
        ([3, 3, 3, 4], None),
        ([3, 3], None),  # less than a block
    ],
)
def test_splats(offsets: Sequence[int], elements: tuple[int, ...] | None) -> None:
    assert find_splats(offsets, 4) == elements


@pytest.mark.parametrize(
    ("offsets", "pieces"),
    [
        ([0, 1, 2, 3, 90, 91, 92, 93], ((0, 0, 4), (90, 4, 8))),
        ([7, 8, 9, 0, 1, 2, 3, 4], ((7, 0, 3), (0, 3, 8))),
        ([5, 6, 7, 8, 9, 10, 11, 12], ((5, 0, 8),)),
        ([0, 1, 2, 90, 91, 180, 181, 182], None),  # of less than four neighbours each
        ([at for start in range(0, 500, 100) for at in range(start, start + 8)], None),  # five
    ],
)
def test_pieces(offsets: Sequence[int], pieces: tuple[tuple[int, int, int], ...] | None) -> None:
    found = find_pieces(offsets)
    assert (found and tuple((p.start, p.first, p.end) for p in found)) == pieces


@pytest.mark.parametrize(
    ("offsets", "elements"),
    [
        ([90, 90, 90, 0], (90, 0)),
        ([0, 0, 0, 0], (0,)),
        ([0, 0, 90, 180], None),  # as many elements as half of the lanes would be worth
        ([0, 0, 90, 90, 180, 180, 270, 270], (0, 90, 180, 270)),
        ([n // 2 * 90 for n in range(16)], None),  # many
    ],
)
def test_few_elements(offsets: Sequence[int], elements: tuple[int, ...] | None) -> None:
    assert find_shared_elements(offsets) == elements


def scheduled(text: str, lanes: int, loops: int, **sizes: int) -> Schedule:
    """A program whose innermost `loops` are one vectorised loop."""
    sch = Schedule(parse_program(text, **sizes))
    block = sch.get_block(sch.func.outputs[0].name)
    nest = sch.get_loops(block)
    sch.vectorize(sch.fuse(*nest[-loops:]) if loops > 1 else nest[-1], lanes=lanes)
    return sch


PACK = "program pack[K=8, R=4, N=16](B: i8[K * R, 2 * N]) -> P: i8[K, N, R]:\n    P[a, c, d] = B[R*a + d, c + N]"
BACKWARDS = "program backwards[N=32](A: f32[N]) -> B: f32[N]:\n    B[i] = A[N - 1 - i]"
GROUPS = "program groups[N=32, G=4, C=4](A: f32[(N + G - 1) // G, C]) -> B: f32[C, N]:\n    B[c, i] = A[i // G, c]"
STRIDED = "program strided[N=16, S=2](A: f32[S*N]) -> B: f32[N]:\n    B[i] = A[S*i + S - 1]"
TILED = """program tiled[N=32, H=13](A: f32[H, N // 4]) -> B: f32[H, N]:
    B[h, i] = A[h, i // 4]"""
FAR = """program far[N=60, G=20, R=80](A: f32[(N + G - 1) // G * R]) -> B: f32[N]:
    B[i] = A[i // G * R]"""
ROWS = """program rows[N=64, G=24, R=400](A: f32[(N + G - 1) // G, R]) -> B: f32[N]:
    B[i] = A[i // G, i % G]"""
REPEATED = "program repeated[N=32, R=4](A: f32[N]) -> B: f32[N * R]:\n    B[i] = A[i // R]"


@pytest.mark.parametrize(
    ("text", "lanes", "loops", "sizes", "shuffles"),
    [
        (PACK, 64, 2, {}, 3),
        (PACK, 32, 2, {"R": 2}, 1),
        (PACK, 64, 2, {"R": 8, "N": 8}, 7),
        (PACK, 64, 2, {"R": 4, "N": 15}, 3),  # lanes beyond the end
        (PACK, 64, 2, {"R": 16, "N": 4}, 1),
        (BACKWARDS, 16, 1, {}, 1),
        (BACKWARDS, 8, 1, {"N": 8}, 1),
        (BACKWARDS, 16, 1, {"N": 31}, 2),
        (FAR, 16, 1, {"N": 16}, 1),
        (FAR, 16, 1, {"N": 16, "G": 10}, 2),
        (FAR, 16, 1, {"N": 12, "G": 10}, 2),
        (FAR, 8, 1, {"G": 2}, 6),  # four elements, and two in what is left
        (FAR, 32, 1, {"G": 4}, None),
        (REPEATED, 16, 1, {"N": 4}, 1),
        (GROUPS, 16, 1, {}, 1),
        (GROUPS, 32, 1, {"G": 8, "C": 7}, 1),
        (GROUPS, 16, 1, {"G": 16}, 1),  # one element for all lanes
        (GROUPS, 32, 1, {"G": 16, "C": 7}, 1),  # an element for each register
        (STRIDED, 16, 1, {}, 1),
        (STRIDED, 16, 1, {"S": 3}, 1),
        (STRIDED, 16, 1, {"S": 5}, None),
        (ROWS, 64, 1, {}, 0),  # a piece of each row
        (ROWS, 64, 1, {"N": 60}, 0),  # the last piece is shorter than the lanes
        (ROWS, 64, 1, {"G": 32}, 1),
        (ROWS, 64, 1, {"G": 12}, None),  # as many pieces as are not worth a vector each
    ],
)
def test_nothing_beyond_an_input_is_read(
    text: str, lanes: int, loops: int, sizes: dict[str, int], shuffles: int | None
) -> None:
    """Inputs are between pages that nothing may touch."""
    sch = scheduled(text, lanes, loops, **sizes)
    emitted = emit(lower(sch.func, HOST), HOST).text
    assert ("masked.gather" in emitted) == (shuffles is None and HOST.gathers)
    if shuffles is not None:
        assert emitted.count("shufflevector") == shuffles
    same_between_guards(sch, text, sizes)


PIXELS = """program pixels[N=16, L=3](X: f32[N, 3]) -> Y: f32[N, 4]:
    Y[i, c] = X[i, c] if c < L else 1.0"""
TURNED = """program turned[N=16](X: f32[N, 3]) -> Y: f32[N, 4]:
    Y[i, c] = X[i, 3 - c] if c >= 1 and not (c == 4) else 0.0"""
PAIRS = """program pairs[N=40](X: f32[N]) -> Y: f32[2 * N]:
    Y[j] = X[j // 2 + 1] if j % 2 == 0 and not (j >= 2 * N - 2) else 2.0"""


@pytest.mark.parametrize(
    ("text", "lanes", "loops", "sizes", "is_shuffled"),
    [
        (PIXELS, 16, 2, {}, True),
        (PIXELS, 64, 2, {}, True),
        (PIXELS, 32, 2, {"N": 13}, True),  # lanes beyond the end
        (PIXELS, 16, 2, {"N": 3}, True),
        (PIXELS, 12, 2, {"N": 15}, True),
        (TURNED, 16, 2, {}, True),
        (TURNED, 16, 2, {"N": 7}, True),
        (PAIRS, 16, 1, {"N": 8}, True),  # one vector: its number is known, too
        (PAIRS, 16, 1, {}, False),  # of several the last is another
    ],
)
def test_lanes_that_are_known_to_run(
    text: str, lanes: int, loops: int, sizes: dict[str, int], is_shuffled: bool
) -> None:
    """Others read nothing of their own: where they would, there may be no memory."""
    sch = scheduled(text, lanes, loops, **sizes)
    emitted = emit(lower(sch.func, HOST), HOST).text
    assert ("masked.gather" in emitted) != is_shuffled
    assert ("shufflevector" in emitted) or not is_shuffled
    same_between_guards(sch, text, sizes)


@pytest.mark.parametrize(("text", "lanes"), [(FAR, 16), (ROWS, 16)])
def test_where_a_vector_begins_in_its_group_is_not_known(text: str, lanes: int) -> None:
    sch = scheduled(text, lanes, 1)
    assert "masked.gather" in emit(lower(sch.func, HOST), HOST).text
    same_between_guards(sch, text, {})


def same_between_guards(sch: Schedule, text: str, sizes: dict[str, int]) -> None:
    """The result is that of the program, and nothing beside its input is read."""
    plain = Kernel(build(parse_program(text, **sizes).func, HOST))
    (given,) = sch.func.inputs
    shape = tuple(int(n.value) for n in given.shape)  # type: ignore[attr-defined]
    source = np.arange(np.prod(shape)).astype(given.dtype.numpy).reshape(shape)
    memory = Guarded()
    try:
        for at_end in (True, False):
            found = Kernel(build(sch.func, HOST))(memory.copy(source, at_end=at_end))
            assert np.array_equal(found, plain(source))
    finally:
        memory.close()


def test_whole_tiles_do_not_gather() -> None:
    """Of rows in tiles of 8 and 5, only the latter have a condition."""
    sch = Schedule(parse_program(TILED))
    h, i = sch.get_loops(sch.get_block("B"))
    h0, h1 = sch.split(h, [None, 8])
    sch.reorder(h0, i, h1)
    sch.unroll(h1)
    sch.vectorize(i, lanes=16)
    a = np.arange(13 * 8, dtype=np.float32).reshape(13, 8)
    assert np.array_equal(Kernel(build(sch.func, HOST))(a), np.repeat(a, 4, axis=1))


KNOWN = """program known[N=60](A: f32[2 * N]) -> Y: f32[N]:
    Y[i] = 7.0 if A[2 * i] > 40.0 else A[2 * i]"""


def test_lanes_that_were_read_already_are_not_gathered_under_a_condition() -> None:
    """Where the last of imperfect tiles may begin is not in bounds, so that only those that run may be read."""
    sch = Schedule(parse_program(KNOWN))
    block = sch.get_block("Y")
    _, i1 = sch.split(sch.get_loops(block)[0], [None, 24])
    sch.vectorize(i1, lanes=8)
    sch.annotate(block, "unroll_limit", 3)
    assert "masked.gather" not in emit(lower(sch.func, HOST), HOST).text
    same_between_guards(sch, KNOWN, {})


PAIRS = """program pairs[N=64](K: i64[4], A: f32[40, N // 2], X: f32[4, N]) -> Y: f32[4, N]:
    T: f32[4, N // 2]
    T[r, i] = A[K[r] + 20, i] if K[r] + 20 >= 0 and K[r] + 20 < 40 else 0.0
    Y[r, i] = T[r, i // 2] * X[r, i]"""


def test_what_lies_at_places_of_the_lane_alone_is_not_gathered_beside_indices_that_are_data() -> None:
    """Indices that are data may leave 64 bits on the way; the others may not."""
    sch = scheduled(PAIRS, 16, 1)
    assert "masked.gather" not in emit(lower(sch.func, HOST), HOST).text
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((40, 32), np.float32), rng.standard_normal((4, 64), np.float32)
    places = np.int64([3, -20, 19, 0])
    made = Kernel(build(sch.func, HOST))(places, a, x)
    np.testing.assert_array_equal(made, np.repeat(a[places + 20], 2, axis=1) * x)


@pytest.mark.parametrize("index", ["x[i]", "i64(x[i]) % 16", "min(max(x[i], 0), 15)", "(i if x[i] > 0 else 0)"])
@pytest.mark.parametrize("size", [8, 16])
def test_indices_that_are_data(index: str, size: int) -> None:
    text = f"program g[N={size}, V=40](A: f32[V], x: i32[N]) -> C: f32[N]:\n    C[i] = A[{index}]"
    sch = scheduled(text, 16, 1)
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal(40, np.float32), rng.integers(0, 40, size).astype(np.int32)
    plain = Kernel(build(parse_program(text).func, HOST))
    assert np.array_equal(Kernel(build(sch.func, HOST))(a, x), plain(a, x))
