"""Numbers that large operands of products are multiplied by multiply the results."""

from __future__ import annotations

from metasched.graph.ir import Graph
from metasched.graph.passes.factors import factors
from tests.support.graphs import context, network, require_equal

LARGE = """m (float[1, 4] x, float[4, 9] w) => (y) {
    c = Constant<value_float = 0.5>()  s = Mul(w, c)  y = MatMul(x, s)
}"""


def passed(body: str) -> Graph:
    """The graph of a network after the pass, which computes the same."""
    graph = network(body).graph
    made = factors(graph, context())
    made.validate()
    require_equal(graph, made)
    return made


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.computes]


def test_a_factor_of_a_large_operand_multiplies_the_result() -> None:
    graph = passed(LARGE)
    assert ops(graph) == ["MatMul"]
    assert "* 0.5" in str(next(iter(graph.computes)).program).splitlines()[-1]


def test_factors_of_both_operands_are_one() -> None:
    text = LARGE.replace("float[1, 4] x", "float[1, 40] x").replace("[4, 9]", "[40, 9]")
    graph = passed(text.replace("y = MatMul(x, s)", "t = Mul(x, c)  y = MatMul(t, s)"))
    assert ops(graph) == ["MatMul"]
    assert "* 0.25" in str(next(iter(graph.computes)).program).splitlines()[-1]


def test_a_factor_of_a_small_operand_stays() -> None:
    assert ops(passed(LARGE.replace("[1, 4]", "[32, 4]"))) == ["Mul", "MatMul"]


def test_a_factor_of_what_is_repeated_multiplies_the_result_however_large_that_is() -> None:
    graph = passed(
        """m (float[2, 32, 4] x, float[1, 4, 9] w) => (y) <int64[3] e = {2, 4, 9}> {
            c = Constant<value_float = 0.5>()  r = Expand(w, e)  s = Mul(r, c)  y = MatMul(x, s)
        }"""
    )
    assert ops(graph) == ["Expand", "MatMul"]


def test_a_very_large_factor_stays() -> None:
    assert ops(passed(LARGE.replace("0.5", "1e30"))) == ["Mul", "MatMul"]


def test_halves_are_multiplied_before_they_are_summed() -> None:
    text = LARGE.replace("float[", "float16[").replace(
        "c = Constant<value_float = 0.5>()", "d = Constant<value_float = 0.5>()  c = Cast<to = 10>(d)"
    )
    assert ops(passed(text)).count("Mul") == 1
