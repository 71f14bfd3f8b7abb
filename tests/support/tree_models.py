"""Ensembles of random trees as nodes of models, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

DOMAIN = "ai.onnx.ml"
ORDERED = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")


def random_trees(
    trees: int,
    depth: int,
    columns: int,
    *,
    targets: int = 1,
    modes: tuple[str, ...] = ("BRANCH_LEQ",),
    missing: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """The attributes of a regressor: trees in which some branches end early, with whole numbers as thresholds."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    leaves: list[tuple[int, int, int, float]] = []
    for tree in range(trees):
        first = len(rows)

        def grow(level: int, tree: int = tree, first: int = first) -> int:
            number = len(rows) - first
            is_leaf = level == depth or (level > 1 and rng.random() < 0.3)
            row = {
                "treeids": tree,
                "nodeids": number,
                "featureids": 0 if is_leaf else int(rng.integers(columns)),
                "values": float(rng.integers(-2, 3)),
                "modes": "LEAF" if is_leaf else str(rng.choice(modes)),
                "missing_value_tracks_true": int(rng.integers(2)) if missing else 0,
                "truenodeids": 0,
                "falsenodeids": 0,
            }
            rows.append(row)
            if is_leaf:
                leaves.append((tree, number, int(rng.integers(targets)), float(np.float32(rng.standard_normal()))))
            else:
                row["truenodeids"], row["falsenodeids"] = grow(level + 1), grow(level + 1)
            return number

        grow(0)
    made = {f"nodes_{name}": [row[name] for row in rows] for name in rows[0]}
    names = ("treeids", "nodeids", "ids", "weights")
    return made | {
        f"target_{name}": list(column) for name, column in zip(names, zip(*leaves, strict=True), strict=True)
    }


def as_classes(attributes: dict[str, Any], labels: list[int], **changes: Any) -> dict[str, Any]:
    """The attributes of a regressor as those of a classifier."""
    renamed = {name.replace("target_", "class_"): given for name, given in attributes.items()}
    return {**renamed, "classlabels_int64s": labels, **changes}


def some_rows(count: int, columns: int, seed: int = 1) -> Any:
    """Whole numbers, among which are infinities, negative zeros and numbers that are missing."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (count, columns)).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf, -0.0):
        x[rng.random(x.shape) < 0.05] = value
    return x
