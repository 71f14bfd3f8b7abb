"""Branches that data choose, against the reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from metasched.graph.builder import GraphBuilder, NodeOrigin

HEAD = '<ir_version: 10, opset_import: ["": 22]>\n'
CHOOSING = """m (float[3] x, float[3] z) => (y, w) <float zero = {0.0}, float[3] tens = {10, 20, 30}> {
    largest = ReduceMax<keepdims = 0>(x)
    chosen = Greater(largest, zero)
    both = Add(x, z)
    y, w = If(chosen) <
        then_branch = first () => (float[3] a, float[3] b) {
            sum = Add(both, z)
            a = Tanh(sum)
            b = Identity(x)
        },
        else_branch = second () => (float[3] c, float[3] d) {
            c = Mul(both, tens)
            d = Identity(tens)
        }>
}"""
IN_A_LOOP = """m (float[3] x, int64 n) => (y) <float most = {5.0}, bool yes = {1}> {
    y = Loop(n, yes, x) <body = step (int64 i, bool c, float[3] p) => (bool go, float[3] q) {
        go = Identity(c)
        largest = ReduceMax<keepdims = 0>(p)
        large = Greater(largest, most)
        q = If(large) <
            then_branch = first () => (float[3] a) { a = Sub(p, x) },
            else_branch = second () => (float[3] b) { b = Add(p, x) }>
    }>
}"""
X, Z = np.float32([1, 2, -3]), np.float32([3, 4, 5])


def compared(text: str, *arrays: Any) -> ms.Network:
    made = onnx.parser.parse_model(HEAD + text)
    net = ms.load_onnx(made)
    wanted = ReferenceEvaluator(made).run(None, dict(zip(net.inputs, arrays, strict=True)))
    found = net(*arrays)
    for got, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    return net


@pytest.mark.parametrize("x", [X, -np.abs(X)])
def test_the_branch_that_data_choose_is_what_comes_out(x: Any) -> None:
    net = compared(CHOOSING, x, Z)
    calls = {kernel.node: kernel.calls for kernel in net.profile(x, Z, runs=2).kernels}
    taken = {name.rpartition("/")[2]: count for name, count in calls.items()}
    # What is not chosen is not computed.
    assert (taken["a"], taken["c"]) == ((1, 0) if x is X else (0, 1))


def chain(length: int) -> str:
    """A chain of conditions, in the branch where none before holds: the first that does chooses what is added to x."""
    made, last = f"r{length} = Neg(x)", f"r{length}"
    for n in reversed(range(length)):
        condition = f"i{n} = Constant<value_int = {n}>()  c{n} = Equal(which, i{n})  k{n} = Cast<to = 1>(i{n})"
        made = f"""{condition}  r{n} = If(c{n}) <
            then_branch = first{n} () => (float[3] t{n}) {{ t{n} = Add(x, k{n}) }},
            else_branch = other{n} () => (float[3] {last}) {{ {made} }}>"""
        last = f"r{n}"
    return f"m (float[3] x, int64 which) => ({last}) {{ {made} }}"


@pytest.mark.parametrize("which", [0, 4, 9])
def test_a_chain_of_conditions_takes_what_holds_first(which: int) -> None:
    compared(chain(6), X, np.array(which))


def test_a_branch_in_others_is_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    run = GraphBuilder.program

    def program(builder: GraphBuilder, origin: NodeOrigin, *rest: Any) -> Any:
        imported.append(origin.op)
        return run(builder, origin, *rest)

    monkeypatch.setattr(GraphBuilder, "program", program)
    ms.load_onnx(onnx.parser.parse_model(HEAD + chain(16)))
    assert (imported.count("Add"), imported.count("Neg")) == (16, 1)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_each_step_of_a_loop_chooses(n: int) -> None:
    compared(IN_A_LOOP, X, np.array(n))


def test_branches_of_several_types_are_refused() -> None:
    with pytest.raises(ms.RefusedModel, match=r"data choose between f32\[3\] and f32\[1, 3\]"):
        ms.load_onnx(
            onnx.parser.parse_model(
                HEAD
                + CHOOSING.replace("c = Mul(both, tens)", "c = Max(zero, one)").replace(
                    "float zero", "float[1, 3] one = {1.0, 2.0, 3.0}, float zero"
                )
            )
        )


@pytest.mark.parametrize("x", [X, -np.abs(X)], ids=["some", "none"])
def test_a_branch_may_have_fewer_elements_than_the_other(x: Any) -> None:
    """As detectors end that find nothing: nothing, or what was selected."""
    compared(
        """m (float[3] x) => (float[a] y, int64[b] places) <float zero = {0.0}, int64 none = {0}> {
            positive = Greater(x, zero)
            found = NonZero(positive)
            size = Size(found)
            is_empty = Equal(size, none)
            y, places = If(is_empty) <then_branch = nothing () => (float[0] e, int64[1] f) {
                e = Constant<value = float[0] {}>()
                f = Constant<value = int64[1] {7}>()
            }, else_branch = some () => (float[n] s, int64[n] flat) <int64[1] last = {-1}> {
                flat = Reshape(found, last)
                s = Gather(x, flat)
            }>
        }""",
        x,
    )
