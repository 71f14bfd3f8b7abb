"""Which nodes go by rows of which only a call knows how many there are."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.filled_rows import row_groups
from metasched.graph.ir import Compute, Graph
from metasched.graph.value_type import ValueType
from metasched.lang import parse_program

NUMBER = ValueType(DType.I64, ())
ROWS = ValueType(DType.F32, (6, 2))


def computed(text: str, inputs: str, output: str, given: ValueType = ROWS, made: ValueType = ROWS) -> Compute:
    arguments = ", ".join(f"{letter}: {given}" for letter, _ in zip("AB", inputs.split(), strict=False))
    program = parse_program(f"program p({arguments}) -> Y: {made}:\n    {text}\n")
    return Compute(output, "Test", program, tuple(inputs.split()), (output,))


def groups(nodes: list[Compute], counted: str, results: str) -> list[list[str]]:
    types = {"n": NUMBER, "x": ROWS} | {name: ROWS for node in nodes for name in node.outputs}
    types |= {node.outputs[0]: ValueType(DType.F32, (2,)) for node in nodes if "sum" in str(node.program)}
    graph = Graph("test", types, ("x", "n"), tuple((r, r) for r in results.split()), {}, tuple(nodes))
    graph.validate()
    counts = dict.fromkeys(counted.split(), ValueCount(GraphValue("n", NUMBER)))
    return [[nodes[n].name for n in group.members] for group in row_groups(graph, counts, 1)]


def add(inputs: str, output: str) -> Compute:
    return computed("Y[i, j] = A[i, j] + B[i, j]" if " " in inputs else "Y[i, j] = A[i, j] + 1.0", inputs, output)


def summed(given: str, output: str) -> Compute:
    return computed("Y[j] = sum[i < 6](A[i, j])", given, output, made=ValueType(DType.F32, (2,)))


def test_what_others_read_whole_is_no_member() -> None:
    nodes = [add("x", "a"), add("a", "b"), add("b", "c")]
    assert groups(nodes, "c", "c") == [["a", "b", "c"]]
    assert groups(nodes, "c", "c b") == [["c"]]
    assert groups(nodes, "c b", "c b") == [["a", "b", "c"]]
    assert groups([*nodes, summed("a", "s")], "c", "c s") == [["b", "c"]]


def test_what_comes_back_by_way_of_other_nodes_is_another_group() -> None:
    shifted = computed("Y[i, j] = A[i, j]", "b", "d")
    mixed = Compute(
        "e",
        "Test",
        parse_program(f"program p(A: {ROWS}, S: f32[2]) -> Y: {ROWS}:\n    Y[i, j] = A[i, j] * S[j]\n"),
        ("d", "s"),
        ("e",),
    )
    nodes = [add("x", "a"), add("a", "b"), summed("b", "s"), shifted, mixed]
    assert groups(nodes, "b e", "e") == [["a", "b"], ["d", "e"]]


def test_what_says_how_many_there_are_is_no_member() -> None:
    number = Compute(
        "m", "Test", parse_program(f"program p(A: {ROWS}) -> Y: i64[]:\n    Y[] = i64(A[0, 0])\n"), ("a",), ("m",)
    )
    nodes = [add("x", "a"), number, add("a", "b")]
    types = {"x": ROWS, "a": ROWS, "b": ROWS, "m": NUMBER}
    graph = Graph("test", types, ("x",), (("b", "b"),), {}, tuple(nodes))
    (group,) = row_groups(graph, dict.fromkeys("ab", ValueCount(GraphValue("m", NUMBER))), 1)
    assert group.members == (2,)
