"""Features that only models under comparison read: those of every statement, and relation curves of accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.estimate.footprint import Array
from metasched.cost.estimate.statement import StatementView
from metasched.cost.feature import Feature
from metasched.cost.features import Features, Rows
from metasched.cost.groups import STATEMENT_FEATURES, describe
from metasched.cost.memory import BUFFER_NAMES, BUFFERS, buffers
from metasched.cost.program.nest import Analyses, analyse
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Func
from metasched.ir.prologue import main_part
from metasched.target import Target

# A curve is read at these powers of two.
THRESHOLDS = tuple(range(2, 26, 2))
# What a curve tells of the loops, against what of them has to be below a threshold.
RELATIONS = (("touched", "trips"), ("reuse", "trips"), ("reuse", "touched"))
CURVES = BUFFERS * len(RELATIONS) * len(THRESHOLDS)
# Of a statement.
DETAILED = (*STATEMENT_FEATURES, *(Feature(f"b{n}.{name}") for n in range(BUFFERS) for name in BUFFER_NAMES))
CYCLES = tuple(feature.name for feature in DETAILED).index("cycles")


@dataclass(frozen=True, eq=False)
class Details:
    """Of n candidates: `statements`, float32 of shape (n, S, F), every statement's features, the one that takes longest
    first, and zeros where there are fewer than S; and `curves`, float32 of shape (n, CURVES).
    """

    statements: Features
    curves: Features

    def take(self, positions: np.ndarray[Any, np.dtype[np.int64]]) -> Details:
        """The details of some of the candidates."""
        return Details(self.statements[positions], self.curves[positions])


def joined_details(parts: Sequence[Details]) -> Details:
    """Those of all parts in order, with room for as many statements as any of them has."""
    most = max((part.statements.shape[1] for part in parts), default=0)
    statements = [np.pad(part.statements, ((0, 0), (0, most - part.statements.shape[1]), (0, 0))) for part in parts]
    return Details(
        np.concatenate([np.zeros((0, most, len(DETAILED)), np.float32), *statements]),
        np.concatenate([np.zeros((0, CURVES), np.float32), *(part.curves for part in parts)]),
    )


def details_of(func: Func, columns: tuple[str, ...], rows: Rows, target: Target, core: Core = DEFAULT_CORE) -> Details:
    """Details of candidates of a parametric program, in the order of `rows`; arguments are `FeatureProgram`'s."""
    views = _views(func, columns, rows, target, core)
    statements = np.zeros((len(rows), max(len(views), 1), len(DETAILED)), np.float32)
    for n, view in enumerate(views):
        described = {**describe(view), **buffers(view)}
        for place, feature in enumerate(DETAILED):
            column = described[feature.name] * view.ranges.runs
            statements[:, n, place] = column if feature.raw else np.log2(column + 1.0)
    order = np.argsort(-statements[:, :, CYCLES], axis=1, kind="stable")
    curves = np.zeros((len(views) or 1, len(rows), CURVES), np.float32)
    for n, view in enumerate(views):
        curves[n] = relation_curves(view)
    heaviest = order[:, 0]
    return Details(np.take_along_axis(statements, order[:, :, None], axis=1), curves[heaviest, np.arange(len(rows))])


def _views(func: Func, columns: tuple[str, ...], rows: Rows, target: Target, core: Core) -> list[StatementView]:
    analyses = Analyses()
    nest = analyse(main_part(func), analyses)
    env: Mapping[str, Any] = {name: np.ascontiguousarray(rows[:, n]) for n, name in enumerate(columns)}
    sizes = [np.asarray(value, np.float32) for value in Evaluator(analyses.table.exprs)(env)]
    return [StatementView(statement, sizes, len(rows), target, core) for statement in nest.statements]


def relation_curves(view: StatementView) -> Features:
    """AutoTVM's relation features (Chen et al. 2018, section 4), float32 of shape (n, CURVES).

    Of the first accesses, the store first: for each threshold 2^t, the largest of one property over the loops of which
    another is below it, as log2. Properties are the iterations inside a loop, the bytes that an access touches in them,
    and how often it uses each of their elements. 0 where no loop is below a threshold, or there is no such access.
    """
    out: list[Array] = []
    trips = np.log2(np.maximum(view.iterations / view.outer, 1.0))
    for access, footprint in list(zip(view.statement.accesses, view.footprints, strict=True))[:BUFFERS]:
        properties = {
            "trips": trips,
            "touched": np.log2(np.maximum(footprint.elements * access.element_bytes, 1.0)),
            "reuse": trips - np.minimum(np.log2(np.maximum(footprint.elements, 1.0)), trips),
        }
        for told, bounded in RELATIONS:
            values, bounds = properties[told], properties[bounded]
            out += [np.where(bounds < threshold, values, 0.0).max(axis=0) for threshold in THRESHOLDS]
    out += [view.full(0.0)] * (CURVES - len(out))
    return np.stack(out, axis=1).astype(np.float32)
