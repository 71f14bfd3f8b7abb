"""Random schedules of a matrix product, lowered and run strictly, give the reference's result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.ir.nodes import Annotation, Binary, BinOp, Expr, For, Func, LoopKind, Scope, Select, Stmt, Store, seq
from metasched.ir.query import blocks
from metasched.reference.interpreter import interpret
from metasched.reference.state import new_state, outputs
from tests.support.lir_interpreter import run_lir
from tests.support.nests import bind, block, buf, c, func, ld, random_inputs, relu, select, v
from tests.support.targets import NEON


@dataclass(frozen=True)
class Axis:
    """An iteration variable split into loops, outermost first, and the guards that needs."""

    loops: tuple[tuple[str, int], ...]
    value: Expr
    guards: tuple[Expr, ...]


def equal(a: Expr, b: Expr) -> Expr:
    return Binary(BinOp.EQ, a, b)


@st.composite
def axes(draw: st.DrawFn, name: str) -> tuple[int, Axis]:
    extent = draw(st.sampled_from([1, 2, 3, 5, 7, 8]))
    inner = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), max_size=2))
    sizes = [max(1, -(-extent // int(np.prod(inner, initial=1)))), *inner]
    names = [f"{name}{n}" for n in range(len(sizes))]
    value: Expr = v(names[0])
    for var, size in zip(names[1:], sizes[1:], strict=True):
        value = value * size + v(var)
    guards = (value < extent,) if int(np.prod(sizes)) > extent else ()
    return extent, Axis(tuple(zip(names, sizes, strict=True)), value, guards)


@st.composite
def products(draw: st.DrawFn) -> Func:
    """A product under any order of its loops, spatial ones of any legal kind, and a reader under some loop of it."""
    (n, i), (m, j), (k, r) = draw(axes("i")), draw(axes("j")), draw(axes("k"))
    value: Expr = ld("A", v("a"), v("r")) * ld("B", v("r"), v("b"))
    there = draw(st.sampled_from([None, v("r") <= v("a"), equal((v("a") + v("r")) % 2, c(0)), v("b") + v("r") >= 3]))
    store = Store("C", (v("a"), v("b")), value if there is None else select(there, value))
    product = block(
        "mm",
        {"a": (n, i.value), "b": (m, j.value), "r": (k, r.value)},
        store,
        guards=i.guards + j.guards + r.guards,
        reduce=("r",),
    )
    order = draw(st.permutations([*i.loops, *j.loops, *r.loops]))
    spatial = {name for name, _ in i.loops + j.loops}
    shared = 0
    while shared < len(order) and order[shared][0] in spatial:
        shared += 1
    shared = draw(st.integers(0, shared))
    fused = draw(st.booleans())
    limit = draw(st.sampled_from([0, 4, 32]))
    kinds = {name: draw(st.sampled_from(list(LoopKind)[:1] * 2 + [LoopKind.UNROLLED])) for name, _ in order}
    parallel = order[0][0] in spatial and draw(st.booleans())
    vector = draw(st.sampled_from([None, *(x for x, _ in order[shared:] if x in spatial)]))
    lanes = draw(st.sampled_from([2, 4]))

    def nest(spec: list[tuple[str, int]], body: Stmt, suffix: str = "") -> Stmt:
        for name, size in reversed(spec):
            kind = LoopKind.VECTORIZED if name == vector else kinds[name]
            if parallel and name == order[0][0]:
                kind = LoopKind.PARALLEL
            body = For(name + suffix, c(size), body, kind, c(lanes) if name == vector else None)
        return body

    inputs, c_buffer, d_buffer = [buf("A", n, k), buf("B", k, m)], buf("C", n, m), buf("D", n, m)
    limits = (Annotation("unroll_limit", c(limit)),)
    if not fused:
        body = nest(list(order), product)
        return func("f", inputs, [c_buffer], [], For("outer", c(1), body, annotations=limits))
    outer, inner = list(order[:shared]), list(order[shared:])
    below = [(x, size) for x, size in inner if x in spatial]
    renamed: dict[str, Expr] = {x: v(x + "_r") for x, _ in below}

    reader = block(
        "act",
        {"a": (n, bind(i.value, **renamed)), "b": (m, bind(j.value, **renamed))},
        Store("D", (v("a"), v("b")), relu(ld("C", v("a"), v("b")))),
        guards=tuple(bind(g, **renamed) for g in i.guards + j.guards),
    )
    body = nest(outer, seq([nest(inner, product), nest(below, reader, "_r")]))
    scope = draw(st.sampled_from([Scope.GLOBAL, Scope.LOCAL]))
    return func("f", inputs, [d_buffer], [buf("C", n, m, scope=scope)], For("outer", c(1), body, annotations=limits))


@settings(max_examples=settings.default.max_examples * 2 // 3)
@given(products())
def test_lowered_products_agree_with_the_reference(f: Func) -> None:
    inputs = random_inputs(f)
    state = new_state(f, dict(zip((b.name for b in f.inputs), inputs, strict=True)), {})
    interpret(f, state)
    (expected,) = outputs(f, state)
    kernel = lower(f, NEON)
    ran = run_lir(kernel, inputs)
    (output,) = f.outputs
    np.testing.assert_array_equal(ran.data[output.name], expected.reshape(-1), err_msg=print_kernel(kernel))
    a, b = (x.astype(np.float32) for x in inputs)
    if not any(isinstance(node, Select) for block in blocks(f) for node in block.store.value.walk()):
        np.testing.assert_array_equal(expected, np.maximum(a @ b, 0) if output.name == "D" else a @ b)
