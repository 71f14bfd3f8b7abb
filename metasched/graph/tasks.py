"""The tasks of a graph: its distinct programs, whatever their names, and how often it runs each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from metasched.graph.ir import Compute, Graph
from metasched.graph.loops.flat_graph import flat
from metasched.graph.value_type import type_of
from metasched.ir.program import Program
from metasched.ir.work import speed_text
from metasched.report.progress_text import duration
from metasched.search.several_tasks.task_progress import bytes_of
from metasched.support.data_classes import dataclass

_COLUMNS = ("task", "what", "runs", "MFLOP", "kB", "best", "speed", "share", "trials")
_LEFT_ALIGNED_COLUMNS = (1,)  # columns of text


@dataclass(frozen=True)
class NetworkTask:
    """A distinct program of a graph.

    Attributes:
        key: the hash of the program up to names, by which `Graph.tasks` and choices know it.
        program: that of the first node.
        nodes: the nodes that run it, up to names, in their order.
        weight: how often a run of the network runs it; of loops that data end, how often it is taken to.
    """

    key: str
    program: Program
    nodes: tuple[Compute, ...]
    weight: int

    @property
    def name(self) -> str:
        """What it computes, for a person: the types of the first node's parts, and the shape of its first result."""
        return f"{self.nodes[0].op} {'x'.join(map(str, type_of(self.program.outputs[0]).shape))}"

    @property
    def nbytes(self) -> int:
        """Memory of its arguments and results."""
        return sum(map(bytes_of, (*self.program.inputs, *self.program.outputs)))


def tasks_of(graph: Graph) -> tuple[NetworkTask, ...]:
    """The tasks of a graph, in the order of their first nodes."""
    found = flat(graph)
    runs = {id(node): found.assumed_runs(n) for n, node in enumerate(found.graph.nodes)}
    return tuple(
        NetworkTask(key, nodes[0].program, nodes, sum(runs[id(node)] for node in nodes))
        for key, nodes in found.graph.tasks.items()
    )


@dataclass(frozen=True)
class TaskRow:
    """A task with what is known of its time.

    Attributes:
        task: the task.
        best_s: seconds of a call, the least that was measured; None where nothing was.
        trials: how many candidates were measured.
        mark: what is said of it now, such as `now`.
        runs: how often it runs; by default as often as its network runs it.
    """

    task: NetworkTask
    best_s: float | None = None
    trials: int = 0
    mark: str = ""
    runs: float | None = None

    @property
    def weight(self) -> float:
        """How often it runs."""
        return self.task.weight if self.runs is None else self.runs

    @property
    def total_s(self) -> float:
        """Seconds in a run of the network; 0 where they are not known."""
        return self.weight * (self.best_s or 0.0)


@dataclass(frozen=True, repr=False)
class TaskTable:
    """The tasks of a network with what is known of their times; it prints as a table, a notebook shows one.

    Attributes:
        rows: the tasks.
        networks: how many there are that calls run on, one each.

    """

    rows: Sequence[TaskRow]
    networks: int = 1

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TaskRow]:
        return iter(self.rows)

    @property
    def seconds(self) -> float | None:
        """The time of all kernels of a run; None while that of some task is not known, and for several networks."""
        if self.networks > 1:
            return None
        known = all(row.best_s is not None for row in self.rows)
        return sum(row.total_s for row in self.rows) if known and self.rows else None

    def cells(self) -> list[tuple[str, ...]]:
        """The table as texts, a row each, its heads first."""
        known = sum(row.total_s for row in self.rows)
        return [(*_COLUMNS, ""), *((str(n), *_cells(row, known)) for n, row in enumerate(self.rows))]

    def lines(self) -> list[str]:
        """The table as lines of equal width."""
        cells = self.cells()
        widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
        return [
            "  ".join(
                c.ljust(w) if n in _LEFT_ALIGNED_COLUMNS else c.rjust(w)
                for n, (c, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]

    def __str__(self) -> str:
        if self.networks > 1:
            return "\n".join(
                [*self.lines(), f"{len(self.rows)} distinct, of {self.networks} networks; a call runs one"]
            )
        total = self.seconds
        kernels = sum(row.weight for row in self.rows)
        below = f"{kernels:g} kernels, {len(self.rows)} distinct"
        return "\n".join([*self.lines(), below if total is None else f"{below}: {duration(total)}"])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        head, *rows = self.cells()
        lines = [_html_row("th", head), *(_html_row("td", row) for row in rows)]
        return f"<table>{''.join(lines)}</table>"


def join_tables(tables: Sequence[TaskTable]) -> TaskTable:
    """One table of networks of which a call runs one: a task runs as often as in the one that runs it most."""
    if len(tables) == 1:
        return tables[0]
    found: dict[str, TaskRow] = {}
    for row in (row for table in tables for row in table.rows):
        known = found.get(row.task.key)
        if known is None or row.weight > known.weight:
            found[row.task.key] = row
    return TaskTable(list(found.values()), len(tables))


def _cells(row: TaskRow, known: float) -> tuple[str, ...]:
    task, best = row.task, row.best_s
    work = task.program.work
    return (
        task.name,
        f"{row.weight:g}",
        f"{work.operations / 1e6:.2f}",
        f"{task.nbytes / 1e3:.0f}",
        "" if best is None else duration(best),
        "" if best is None else speed_text(work.gflops(best), work.gops(best)),
        "" if best is None else f"{row.total_s / known:.1%}",
        str(row.trials) if row.trials else "",
        row.mark,
    )


def _html_row(kind: str, cells: Sequence[str]) -> str:
    said = "".join(
        f'<{kind} style="text-align:{"left" if n in _LEFT_ALIGNED_COLUMNS else "right"}">{escape(cell)}</{kind}>'
        for n, cell in enumerate(cells)
    )
    return f"<tr>{said}</tr>"
