from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import For, Func, Stmt, Store
from metasched.lang import parse_program
from metasched.reference.compiled_loops import run_compiled
from metasched.reference.interpreter import interpret
from metasched.reference.loop_order import NestOrder, order_nest
from metasched.reference.machine_code import Optimisation
from metasched.reference.state import concrete_shape, new_state, outputs
from tests.support.nests import block, buf, func, ld, loops, v


def order_of(f: Func) -> NestOrder:
    shapes = {b.name: concrete_shape(b) for b in f.buffers()}
    return order_nest(f.body, shapes, frozenset(b.name for b in f.inputs))


def variables(stmt: Stmt) -> list[str]:
    found = []
    while isinstance(stmt, For):
        found.append(stmt.var)
        stmt = stmt.body
    return found


def both_ways(f: Func) -> None:
    """Interpreted and compiled, which must agree to the bit."""
    rng, results = np.random.default_rng(0), []
    inputs = {b.name: rng.standard_normal(concrete_shape(b)).astype(b.dtype.numpy) for b in f.inputs}
    for executor in (interpret, partial(run_compiled, optimisation=Optimisation.FULL)):
        state = new_state(f, dict(inputs), {})
        executor(f, state)
        results.append(outputs(f, state)[0])
    np.testing.assert_array_equal(results[0], results[1])


def product(first: str, second: str, sizes: tuple[int, int, int]) -> Func:
    m, n, k = sizes
    shape = {"i": m, "j": n, "k": k}
    a, b = (f"[{shape[x[0]]}, {shape[x[1]]}]" for x in (first, second))
    text = f"C[i, j] = sum[k](A[{', '.join(first)}] * B[{', '.join(second)}])"
    return parse_program(f"program p(A: f32{a}, B: f32{b}) -> C: f32[{m}, {n}]:\n    {text}\n").func


def test_reductions_run_inside_the_tiles_in_their_order_and_outside_the_rows() -> None:
    f = parse_program("""program conv(X: f32[40, 40, 8], K: f32[3, 3, 8, 24]) -> Y: f32[38, 38, 24]:
    Y[h, w, o] = sum[r, s, c](X[h + r, w + s, c] * K[r, s, c, o])
""").func
    found = variables(order_of(f).nest)
    reductions = [var for var in found if not var.endswith((".tile", ".element"))]
    assert [var[0] for var in reductions] == ["r", "s", "c"]
    first = found.index(reductions[0])
    assert all(var.endswith(".tile") for var in found[:first])
    assert all(var.endswith(".element") for var in found[first + len(reductions) :])
    assert found[-1].startswith("o"), "the elements of a row lie one after another"


@pytest.mark.parametrize("sizes", [(1, 1, 3), (131, 5, 7), (17, 257, 2), (3, 300, 5)])
def test_tiles_that_do_not_divide_a_size_cover_every_element_once(sizes: tuple[int, int, int]) -> None:
    f = product("ik", "kj", sizes)
    assert {".tile", ".element"} == {var[var.index(".") :] for var in variables(order_of(f).nest) if "." in var}
    both_ways(f)


def test_a_matrix_that_a_row_reads_with_a_stride_is_copied_with_that_dimension_last() -> None:
    order = order_of(product("ik", "jk", (64, 48, 32)))
    assert order.last == {"B": 0}
    both_ways(product("ik", "jk", (19, 23, 9)))


def test_what_is_read_along_rows_or_a_few_times_alone_is_not_copied() -> None:
    assert order_of(product("ik", "kj", (64, 48, 32))).last == {}
    assert order_of(product("ik", "jk", (4, 48, 32))).last == {}


def test_what_may_not_be_copied_is_read_where_it_lies() -> None:
    f = product("ik", "jk", (64, 48, 32))
    assert order_nest(f.body, {b.name: concrete_shape(b) for b in f.buffers()}).last == {}


def test_a_nest_that_computes_an_element_twice_keeps_its_loops_over_elements_outside_but_the_last() -> None:
    """Tiles of three that overlap by one: what a tile begins must not come between the terms of another."""
    sums = block(
        "sums",
        {"vi": (9, v("t") * 2 + v("x")), "vk": (4, v("k"))},
        Store("S", (v("vi"),), ld("A", v("vi"), v("vk"))),
        reduce=("vk",),
    )
    f = func("f", [buf("A", 9, 4)], [buf("S", 9)], [], loops([("t", 4), ("x", 3), ("k", 4)], sums))
    assert variables(order_of(f).nest) == ["t", "k", "x"]
    both_ways(f)


def test_a_stage_without_reductions_is_as_it_was() -> None:
    f = parse_program("program p(X: f32[50, 60]) -> Y: f32[60, 50]:\n    Y[j, i] = X[i, j]\n").func
    assert order_of(f).nest is f.body


def test_tiles_are_as_alike_as_can_be() -> None:
    nest = order_of(product("ik", "kj", (8, 300, 4))).nest
    extents = []
    while isinstance(nest, For):
        extents.append(as_int(nest.extent))
        nest = nest.body
    assert 300 not in extents
    assert {3, 100} <= set(extents)
