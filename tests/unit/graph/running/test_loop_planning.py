"""Loops that data end, as compiled code runs them: against loops of NumPy, in place, from several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.loops.flat_graph import flat, merge_same_arrays
from metasched.graph.running.execution_plan import TableAction
from metasched.graph.running.loop_planning import StateWay, loop_memory
from metasched.graph.running.plan import Arena, arena, lifetimes, places
from tests.support.graphs import network
from tests.support.loops import (
    CELLS,
    GOES_ON_BY,
    counted_by_numpy,
    counting,
    decoded_by_numpy,
    decoder,
    decoder_inputs,
    nested,
    nested_by_numpy,
    newton,
    newton_by_numpy,
)

A = np.float32([4, 9, 2, 100])


def require_same(found: Any, wanted: Any) -> None:
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def ways(net: ms.Network) -> list[StateWay]:
    found = merge_same_arrays(flat(net.optimised))
    return list(loop_memory(found, places(found.graph)).ways.values())


def actions(net: ms.Network) -> list[TableAction]:
    return [TableAction(step) for step in net.compiled().plan.steps if step < 0]


@pytest.mark.parametrize("most", [0, 1, 3, 40])
def test_newton_s_iteration_runs_until_it_converges(most: int) -> None:
    if most:
        require_same(newton(most)(A), newton_by_numpy(A, most))
    else:
        root, seen = newton(most)(A)
        np.testing.assert_array_equal(root, A)
        assert seen.shape == (0, 4)


def test_a_value_that_steps_give_out_is_the_state_of_the_next_and_nothing_is_copied() -> None:
    net = newton()
    assert ways(net) == [StateWay.FOLLOWS]
    assert TableAction.COPY not in actions(net)


@pytest.mark.parametrize(("at", "last"), [(2, 7), (10, 99), (0, 3), (CELLS - 1, 0)])
def test_a_decoder_stops_at_a_token_or_where_its_cache_ends(at: int, last: int) -> None:
    x, start, cache, end = decoder_inputs(at, last)
    before = cache.copy()
    require_same(decoder()(x, start, cache, end), decoded_by_numpy(x, at, cache, last))
    np.testing.assert_array_equal(cache, before)


def test_a_cache_is_copied_once_and_each_step_writes_one_row_of_it() -> None:
    net = decoder()
    assert ways(net) == [StateWay.IN_TURNS, StateWay.IN_TURNS, StateWay.IN_PLACE]
    assert actions(net).count(TableAction.PLACE) == 1
    assert actions(net).count(TableAction.COPY) == 1


def test_a_row_that_lies_outside_of_a_cache_is_not_written() -> None:
    net = network(
        """m (float[3] x, int64 at, float[4, 3] cache) => (after) <int64 n = {6}, bool yes = {1}> {
            end, after = Loop(n, yes, at, cache) <body = step
              (int64 i, bool c, int64 p, float[4, 3] old) => (bool go, int64 q, float[4, 3] new) {
                one = Constant<value_int = 1>()
                start_shape = Constant<value_ints = [1]>()
                row_shape = Constant<value_ints = [1, 3]>()
                column = Constant<value_ints = [4, 1]>()
                cells = Constant<value_ints = [0, 1, 2, 3]>()
                zero = Constant<value_int = 0>()
                four = Constant<value_int = 4>()
                all = Range(zero, four, one)
                most = ReduceMax<keepdims = 0>(old)
                goes = Constant<value_float = 1000.0>()
                go = Less(most, goes)
                number = Cast<to = 1>(i)
                row = Add(x, number)
                is_here = Equal(all, p)
                here = Reshape(is_here, column)
                wide = Reshape(row, row_shape)
                new = Where(here, wide, old)
                q = Add(p, one)
            }>
        }"""
    )
    x = np.float32([1, 2, 3])
    for at in (-3, 1, 3):
        wanted = np.full((4, 3), -1, np.float32)
        for step in range(6):
            if 0 <= at + step < 4:
                wanted[at + step] = x + step
        np.testing.assert_array_equal(net(x, np.array(at), np.full((4, 3), -1, np.float32)), wanted)


def test_each_step_writes_one_column() -> None:
    net = network(
        """m (float[3, 1] x, int64[1] base, float[1, 3, 5] cache) => (after) <int64 n = {4}, bool yes = {1}> {
            after = Loop(n, yes, cache) <body = step
              (int64 i, bool c, float[1, 3, 5] old) => (bool go, float[1, 3, 5] new) {
                shape = Constant<value_ints = [1, 3, 1]>()
                place = Add(base, i)
                number = Cast<to = 1>(i)
                sum = Add(x, number)
                column = Reshape(sum, shape)
                new = TensorScatter<axis = 2>(old, column, place)
                largest = ReduceMax<keepdims = 0>(new)
                most = Constant<value_float = 100.0>()
                go = Less(largest, most)
            }>
        }""",
        opset=24,
    )
    assert ways(net) == [StateWay.IN_PLACE]
    x = np.float32([[1], [2], [3]])
    for base in (-1, 0, 2):
        wanted = np.zeros((1, 3, 5), np.float32)
        for step in range(4):
            if 0 <= base + step < 5:
                wanted[0, :, base + step] = x[:, 0] + step
        np.testing.assert_array_equal(net(x, np.array([base]), np.zeros((1, 3, 5), np.float32)), wanted)


@pytest.mark.parametrize(("n", "least"), [(3, 1), (0, 1), (2, 100), (5, -1)])
def test_loops_in_loops_read_what_is_around_them(n: int, least: float) -> None:
    found = nested()(np.array(n), A, np.float32(least))
    require_same(found, nested_by_numpy(n, A, least))


@pytest.mark.parametrize("given_out", [False, True])
@pytest.mark.parametrize("goes_on", GOES_ON_BY)
def test_what_is_in_a_step_may_say_whether_there_is_another(goes_on: str, given_out: bool) -> None:
    net = counting(goes_on, given_out)
    for x in (0, 3, 4, 7, 12):
        wanted = counted_by_numpy(x)
        found = net(np.float32(x))
        require_same(found if given_out else (found,), wanted if given_out else wanted[:1])


@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_states_may_change_places(steps: int) -> None:
    net = network(
        """m (int64 n, float[3] a, float[3] b, float[3] c) => (x, y, z) <bool yes = {1}> {
            x, y, z = Loop(n, yes, a, b, c) <body = step (int64 i, bool d, float[3] p, float[3] q, float[3] r)
              => (bool go, float[3] q2, float[3] p2, float[3] a2) {
                go = Identity(d)
                q2 = Identity(q)
                p2 = Identity(p)
                a2 = Add(a, q)
            }>
        }"""
    )
    arrays = np.arange(9, dtype=np.float32).reshape(3, 3)
    x, y, z = arrays
    for _ in range(steps):
        x, y, z = y, x, arrays[0] + y
    require_same(net(np.array(steps), *arrays), (x, y, z))


def test_threads_run_one_loop_at_once_for_as_many_steps_as_each_needs() -> None:
    net = decoder()
    cases = [decoder_inputs(at, last) for at in range(4) for last in (1, 99)]
    wanted = [decoded_by_numpy(x, int(at), cache, int(last)) for x, at, cache, last in cases]
    with ThreadPoolExecutor(4) as pool:
        for found, want in zip(pool.map(lambda case: net(*case), cases * 4), wanted * 4, strict=True):
            require_same(found, want)


def test_what_a_loop_reads_lives_until_it_ends() -> None:
    net = nested()
    found = merge_same_arrays(flat(net.optimised))
    place = places(found.graph)
    memory = loop_memory(found, place)
    workspaces = [0] * len(found.graph.nodes)
    pieces = lifetimes(found.graph, place, memory.moving, workspaces, memory.uses)
    outer, inner = found.loops
    alive = {piece.name: piece for piece in pieces}
    counter = alive[place[outer.counter or ""].root]
    assert counter.first <= inner.first
    assert counter.last >= inner.end - 1
    number = next(piece for name, piece in alive.items() if name.startswith("outer"))
    assert number.last >= inner.end - 1
    planned: Arena = arena(pieces)
    assert planned.nbytes >= planned.bound > 0


def test_each_kernel_of_a_body_is_profiled_with_how_often_it_ran() -> None:
    net = newton()
    steps = len(newton_by_numpy(A)[1])
    profile = net.profile(A, runs=3)
    assert [kernel.calls for kernel in profile.kernels] == [steps] * len(profile.kernels)
    assert f", {steps} times)" in str(profile)
    assert {row.task.weight for row in net.tasks()} == {32}


def test_a_network_is_timed_with_few_steps_of_loops_that_its_inputs_may_never_end() -> None:
    net = network(
        """m (float[2] x) => (y) <bool yes = {1}> {
            y = Loop(, yes, x) <body = step (int64 i, bool c, float[2] p) => (bool go, float[2] q) {
                one = Constant<value_float = 1.0>()
                moved = Add(p, one)
                q = Sub(moved, one)
                large = Constant<value_float = 1000000.0>()
                most = ReduceMax<keepdims = 0>(q)
                go = Less(most, large)
            }>
        }"""
    )
    compiled = net.compiled()
    times = compiled.run_timed([np.zeros(2, np.float32)], 5)
    assert times.runs.tolist() == [5] * len(compiled.steps)
    assert net.settling_s() > 0


def test_precision_is_that_of_the_network_in_bodies_too() -> None:
    narrow = network(
        """m (float[8, 64] x) => (y) <int64 n = {3}, bool yes = {1}> {
            y = Loop(n, yes, x) <body = step (int64 i, bool c, float[8, 64] p) => (bool go, float[8, 64] q) {
                shape = Constant<value_ints = [64, 64]>()
                w = ConstantOfShape<value = float[1] {0.013}>(shape)
                product = MatMul(p, w)
                q = Tanh(product)
                most = ReduceMax<keepdims = 0>(q)
                zero = Constant<value_float = -2.0>()
                go = Greater(most, zero)
            }>
        }"""
    )
    wide = ms.Network(narrow.graph)
    narrow = ms.Network(narrow.graph, precision="bf16")
    (loop,) = narrow.optimised.loops
    assert {array.dtype.name for array in loop.body.constants.values()} == {"bfloat16"}
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    np.testing.assert_allclose(narrow(x), wide(x), rtol=2e-2, atol=2e-2)
    assert 0 < narrow.precision_error(x).outputs[0].relative < 0.02


def test_a_state_of_the_network_may_begin_a_loop_and_be_what_comes_of_it() -> None:
    text = """m (int64 n, float[3] x, float[3] held) => (next, y) <bool yes = {1}, float half = {0.5}> {
        next = Loop(n, yes, held) <body = step (int64 i, bool c, float[3] p) => (bool go, float[3] q) {
            go = Identity(c)
            halved = Mul(p, half)
            q = Add(halved, x)
        }>
        y = Neg(next)
    }"""
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 22]>\n{text}')
    net = ms.load_onnx(made, states={"held": "next"})
    x, held = np.float32([1, 2, 3]), np.zeros(3, np.float32)
    for steps in (2, 0, 3):
        for _ in range(steps):
            held = held * np.float32(0.5) + x
        np.testing.assert_allclose(net(np.array(steps), x), -held)
        np.testing.assert_allclose(net.state["held"], held)


def test_quantised_products_in_a_body_are_products_of_bytes() -> None:
    net = network(
        """m (uint8[2, 64] x, int64 n) => (y)
          <bool yes = {1}, float scale = {0.02}, uint8 zero = {128}, int64[2] shape = {64, 64}> {
            y = Loop(n, yes, x) <body = step (int64 i, bool c, uint8[2, 64] p) => (bool go, uint8[2, 64] q) {
                go = Identity(c)
                weights = ConstantOfShape<value = int8[1] {3}>(shape)
                signed = Constant<value = int8 {0}>()
                w = DequantizeLinear(weights, scale, signed)
                a = DequantizeLinear(p, scale, zero)
                product = MatMul(a, w)
                q = QuantizeLinear(product, scale, zero)
            }>
        }"""
    )
    (loop,) = net.optimised.loops
    assert {array.dtype.name for array in loop.body.constants.values()} <= {"int8", "int32", "float32", "uint8"}
    assert "int8" in {array.dtype.name for array in loop.body.constants.values()}
    x = np.random.default_rng(0).integers(100, 160, (2, 64)).astype(np.uint8)
    wanted = x
    for _ in range(3):
        product = (wanted.astype(np.float32) - 128) * np.float32(0.02) @ np.full((64, 64), 0.06, np.float32)
        wanted = np.clip(np.rint(product / np.float32(0.02)) + 128, 0, 255).astype(np.uint8)
    assert np.abs(net(x, np.array(3)).astype(int) - wanted).max() <= 1


def test_a_step_may_compute_where_it_writes() -> None:
    net = network(
        """m (float[3] x, int64 base, float[1, 6, 3] cache) => (after) <int64 n = {4}, bool yes = {1}> {
            after = Loop(n, yes, cache) <body = step
              (int64 i, bool c, float[1, 6, 3] old) => (bool go, float[1, 6, 3] new) {
                two = Constant<value_int = 2>()
                start_shape = Constant<value_ints = [1]>()
                row_shape = Constant<value_ints = [1, 1, 3]>()
                steps = Mul(i, two)
                place = Add(steps, base)
                start = Reshape(place, start_shape)
                number = Cast<to = 1>(i)
                sum = Add(x, number)
                row = Reshape(sum, row_shape)
                new = TensorScatter<axis = 1>(old, row, start)
                largest = ReduceMax<keepdims = 0>(new)
                most = Constant<value_float = 100.0>()
                go = Less(largest, most)
            }>
        }""",
        opset=24,
    )
    assert ways(net) == [StateWay.IN_PLACE]
    (loop,) = net.optimised.loops
    assert remove_dead_code(loop.body).nodes == loop.body.nodes
    x = np.float32([1, 2, 3])
    for base in (-1, 0, 1):
        wanted = np.zeros((1, 6, 3), np.float32)
        for step in range(4):
            if 0 <= base + 2 * step < 6:
                wanted[0, base + 2 * step] = x + step
        np.testing.assert_array_equal(net(x, np.array(base), np.zeros((1, 6, 3), np.float32)), wanted)
