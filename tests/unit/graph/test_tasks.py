"""The tasks of a graph, and the table that shows them."""

from __future__ import annotations

import metasched as ms
from metasched.graph.tasks import TaskRow, TaskTable, tasks_of
from tests.support.onnx_models import model, node, random, value

X, W = random(8, 16), random(16, 16, seed=1)


def network() -> ms.Network:
    nodes = [node("MatMul", "X W", "P"), node("Tanh", "P", "Q"), node("MatMul", "Q W", "R"), node("Relu", "R", "S")]
    return ms.load_onnx(model(nodes, [value("X", X)], ("S",), {"W": W}))


def test_equal_programs_are_one_task() -> None:
    tasks = tasks_of(network().graph)
    assert [(task.name, task.weight) for task in tasks] == [("MatMul 8x16", 2), ("Tanh 8x16", 1), ("Relu 8x16", 1)]
    assert tasks[0].nbytes == 4 * (8 * 16 + 16 * 16 + 8 * 16)
    assert [len(task.nodes) for task in tasks] == [2, 1, 1]
    assert tasks[0].key in network().graph.tasks


def test_the_table_says_what_is_known() -> None:
    tasks = tasks_of(network().graph)
    known = TaskTable([TaskRow(tasks[0], 3e-6, 9, "now"), TaskRow(tasks[1], 2e-6), TaskRow(tasks[2], 2e-6)])
    first = known.lines()[1].split()
    assert first[:4] == ["0", "MatMul", "8x16", "2"]
    assert first[-3:] == ["60.0%", "9", "now"], "6 of 10 us"
    assert known.seconds == 2 * 3e-6 + 2e-6 + 2e-6
    assert str(known).splitlines()[-1] == "4 kernels, 3 distinct: 10.00 us"
    unknown = network().tasks()
    assert unknown.seconds is None
    assert str(unknown).splitlines()[-1].startswith(f"{sum(row.weight for row in unknown.rows):g} kernels")
    assert len({len(line) for line in known.lines()}) == 1
    assert known._repr_html_().count("<tr>") == 4
    assert (len(known), list(known)) == (3, list(known.rows))
