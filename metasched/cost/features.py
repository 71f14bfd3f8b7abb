"""Features of scheduled programs, as arrays over a population.

A `FeatureProgram` is made once from a *symbolic* program, whose loop extents are expressions over free tile
variables, and then maps a population (an integer array, a row per candidate) to its features by array arithmetic.
Every program has the same features in the same order, so one model serves all sketches of a task, and all tasks.

Groups (a statement is a block of the scheduled program). The heaviest statement (a reduction before a plain store,
then more iteration variables, then more arithmetic, then program order) has them all, as `s0.*`; the next one a
selection, `s1.*`; sums over all statements are `all.*`.

arithmetic      operations by kind, iterations, wasted iterations (recomputation and imperfect tiles), guards that
                interval arithmetic cannot discharge. Kinds and counts as in Ansor's appendix B, group 1.
vectors         lanes, share of lanes at work, accesses by contiguous, broadcast and strided along the vectorised
                loop. Useful-lane and access-kind terms as in Halide's Adams2019 features.
registers       the tile inside the innermost reduction loop: accumulators and loads in vectors, copies made by
                unrolling, code size, whether accumulators stay in registers.
operations      what one operation does, of a vector or of a tensor intrinsic: its arithmetic, the cycles until the next
                one, its loads.
parallelism     tasks, tasks a thread, imbalance (idle-core factor of Adams2019).
locality        for each cache, the outermost loop level whose working set fits, arithmetic per byte moved into it
                (Ansor's arithmetic-intensity curve, read at the three places that matter).
buffers         for each access: bytes, lines, reuse count and distance (Ansor, group 2), traffic into each cache,
                strides, and set conflicts of power-of-two rows.
cycles          a hand-made roofline from the above: operations, ports, latency, L2, L3 and memory, and their sum.
                A model that starts from it needs fewer measurements.
structure       depth, loops shared by fusion, temporaries, register buffers, parallel loops.

Counts, bytes and cycles are given as log2(1 + x); shares, ratios and flags as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.estimate.footprint import Array
from metasched.cost.estimate.peak import cycles_at_peak
from metasched.cost.estimate.reuse_between_statements import views_of
from metasched.cost.estimate.roofline import start_cycles
from metasched.cost.estimate.statement import StatementView
from metasched.cost.feature import Columns, Feature
from metasched.cost.groups import STATEMENT_FEATURES, describe, describe_for_sums
from metasched.cost.memory import BUFFER_NAMES, BUFFERS, buffers
from metasched.cost.program.nest import Analyses, Nest, Statement, analyse
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Func
from metasched.ir.prologue import main_part
from metasched.target import Target

Rows = np.ndarray[Any, np.dtype[np.int64]]
Features = np.ndarray[Any, np.dtype[np.float32]]

# Rows evaluated at a time: small enough for the arrays of one statement to stay in the second-level cache.
CHUNK = 2048

# Sums over all statements, of features of theirs.
SUMMED_NAMES = (
    *("flops", "core_cycles", "l2_cycles", "l3_cycles", "memory_cycles", "cycles", "waiting_cycles"),
    *("code_bytes", "live_guards"),
)
# Features of the program: those, and what `FeatureProgram._program_columns` makes.
PROGRAM_FEATURES = (
    *map(Feature, SUMMED_NAMES),
    *map(Feature, ("domain_flops", "launch_cycles", "steady_cycles", "total_cycles")),
    Feature("efficiency", raw=True),
    Feature("serial_share", raw=True),
    *map(Feature, ("allocated", "statements", "temps", "register_temps", "parallel_loops")),
)
SECOND_FEATURES = tuple(feature for feature in STATEMENT_FEATURES if feature.second)
_COLUMNS = (
    *(("s0", feature) for feature in STATEMENT_FEATURES),
    *((f"s0.b{n}", Feature(name)) for n in range(BUFFERS) for name in BUFFER_NAMES),
    *(("s1", feature) for feature in SECOND_FEATURES),
    *(("all", feature) for feature in PROGRAM_FEATURES),
)
NAMES: tuple[str, ...] = tuple(f"{of}.{feature.name}" for of, feature in _COLUMNS)
_HAS_LOG = tuple(not feature.raw for _, feature in _COLUMNS)


class FeatureProgram:
    """Features of every candidate of one symbolic program.

    Args:
        func: the program; its free variables are among `columns`.
        columns: the tile variables, in the order of a row's entries.
        target: caches, vector width, registers and threads to judge by.
        core: what the operations of one of its cores cost.
        analyses: of statements of other programs, which this one may share; its own are added.

    Features are those of the main part: what is run once for constant arguments (`metasched.ir.prologue`) has none.

    Calling it with rows, int64 of shape (n, len(columns)), gives float32 of shape (n, len(names)). The features of a
    row are those of the program with the row's numbers put in.
    """

    names = NAMES

    def __init__(
        self,
        func: Func,
        columns: tuple[str, ...],
        target: Target,
        core: Core = DEFAULT_CORE,
        analyses: Analyses | None = None,
    ) -> None:
        self.columns = columns
        self.target = target
        self.core = core
        analyses = Analyses() if analyses is None else analyses
        self._nest = analyse(main_part(func), analyses)
        self._order = _order_by_weight(self._nest)
        sizes = analyses.table.exprs
        self._evaluate = Evaluator([sizes[slot] for slot in self._nest.slots])

    def __call__(self, rows: Rows) -> Features:
        rows = np.ascontiguousarray(rows, dtype=np.int64).reshape(len(rows), len(self.columns))
        out = np.empty((len(rows), len(NAMES)), dtype=np.float32)
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            block = np.empty((len(NAMES), len(part)), dtype=np.float32)
            together: list[int] = []
            for n, (column, log) in enumerate(zip(self._columns(part), _HAS_LOG, strict=True)):
                if log and column.dtype != np.float32:  # its logarithm is rounded, and not its value
                    np.log2(column + 1.0, out=block[n])
                    continue
                block[n] = column
                if log:
                    together.append(n)
            logs = block[together] + np.float32(1.0)
            block[together] = np.log2(logs, out=logs)
            out[start : start + CHUNK] = block.T
        return out

    def _columns(self, rows: Rows) -> list[Array]:
        count = len(rows)
        env: Mapping[str, Any] = {name: np.ascontiguousarray(rows[:, n]) for n, name in enumerate(self.columns)}
        values = (np.asarray(value, dtype=np.float32) for value in self._evaluate(env))
        sizes = dict(zip(self._nest.slots, values, strict=True))
        views = views_of(self._nest, sizes, count, self.target, self.core)
        first, second = ([*self._order, None, None])[:2]
        described = [(describe if n in (first, second) else describe_for_sums)(view) for n, view in enumerate(views)]
        empty = np.zeros(count, np.float32)
        out = [_column_of(described, first, f.name, empty) for f in STATEMENT_FEATURES]
        if first is None:
            out += [empty] * (BUFFERS * len(BUFFER_NAMES))
        else:
            runs = views[first].ranges.runs
            out += (np.where(runs, column, 0.0).astype(np.float32) for column in buffers(views[first]).values())
        out += [_column_of(described, second, f.name, empty) for f in SECOND_FEATURES]
        launches = start_cycles(sizes[self._nest.regions], sizes[self._nest.barriers], self.core) + empty
        whole = self._program_columns(views, described, launches)
        return out + [whole[f.name] for f in PROGRAM_FEATURES]

    def _program_columns(self, views: list[StatementView], described: list[Columns], launches: Array) -> Columns:
        out: Columns = {}
        count = len(launches)
        for name in SUMMED_NAMES:
            total = np.zeros(count, np.float32)
            for columns in described:
                total += columns[name]
            out[name] = total
        useful, least, serial, allocated = (np.zeros(count, np.float32) for _ in range(4))
        for view, columns in zip(views, described, strict=True):
            useful += view.domain * view.statement.operations.flops * view.ranges.runs
            least += cycles_at_peak(view) * view.ranges.runs
            serial += columns["cycles"] * (columns["speedup"] == 1)
            allocated += _allocated_bytes(view) * view.ranges.runs
        steady = out["cycles"] + launches
        out["domain_flops"] = useful
        out["launch_cycles"] = launches
        out["steady_cycles"] = steady
        out["total_cycles"] = steady + out["waiting_cycles"]
        out["efficiency"] = least / np.maximum(steady, 1.0)
        out["serial_share"] = serial / np.maximum(steady, 1.0)
        out["allocated"] = allocated
        out["statements"] = np.full(count, float(len(views)), np.float32)
        out["temps"] = np.full(count, float(self._nest.temps), np.float32)
        out["register_temps"] = np.full(count, float(self._nest.register_temps), np.float32)
        out["parallel_loops"] = np.full(count, float(self._nest.parallel_loops), np.float32)
        return out


def _column_of(described: list[Columns], statement: int | None, name: str, empty: Array) -> Array:
    return empty if statement is None else described[statement][name]


def _allocated_bytes(view: StatementView) -> Array:
    """Bytes of the temporary that the statement writes."""
    store = view.statement.store
    if store.alloc is None:
        return np.zeros(view.rows, np.float32)
    bytes_used: Array = view.footprints[0].elements[store.alloc] * store.element_bytes
    return bytes_used


def _order_by_weight(nest: Nest) -> list[int]:
    """Statements, heaviest first, by what does not depend on the candidate."""

    names = {statement.name for statement in nest.statements}

    def weight(n: int) -> tuple[bool, int, bool, float, int]:
        statement: Statement = nest.statements[n]
        # The main part of a loop keeps the name, and the others add to it (loop_partition).
        main = statement.name.rpartition(".")[0] not in names
        return (statement.reduces, len(statement.domain), main, statement.operations.instructions, -n)

    return sorted(range(len(nest.statements)), key=weight, reverse=True)


def features_of(func: Func, target: Target, core: Core = DEFAULT_CORE) -> Features:
    """Features of one concrete program, float32 of shape (number of features,)."""
    features: Features = FeatureProgram(func, (), target, core)(np.empty((1, 0), dtype=np.int64))[0]
    return features
