"""How well models rank the codes of a table before anything is measured: all of them, and those that searches come to
first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.contest.described import Table
from benchmarks.registry import Result
from metasched.cost.baseline import analytic_score
from metasched.cost.learning.ranking import pair_accuracy
from metasched.cost.model import Model

# The codes that the roofline likes best: what the first batches come from.
LIKED_CODES = 64


def ranked_right(table: Table, model: Model) -> dict[str, float]:
    """The share of pairs of a table's codes that a model ranks right, by which codes are paired; NaN where no two
    times differ."""
    features = np.concatenate([structure.features for structure in table.structures])
    seconds = np.concatenate([structure.seconds for structure in table.structures])
    scores = model.predict(features)
    fastest = np.argsort(seconds, kind="stable")
    liked = np.argsort(-analytic_score(features), kind="stable")
    chosen = {
        "all": fastest,
        "fastest half": fastest[: len(fastest) // 2],
        "fastest tenth": fastest[: len(fastest) // 10],
        f"{LIKED_CODES} the roofline likes best": liked[:LIKED_CODES],
    }
    return {name: pair_accuracy(scores[some], seconds[some]) for name, some in chosen.items()}


def order(tables: Sequence[Table], models: Mapping[str, Sequence[Model]]) -> list[Result]:
    """A line for each model, of which there is one for each table: the means over tables."""
    lines: list[Result] = []
    for name, of_tables in models.items():
        found = [ranked_right(table, model) for table, model in zip(tables, of_tables, strict=True)]
        means = {key: float(np.nanmean([one[key] for one in found])) for key in found[0]}
        lines.append({"case": f"pairs ranked right: {name}", "tables": len(tables), **means})
    return lines
