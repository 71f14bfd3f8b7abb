"""A trained model: how much longer candidates take than the hand-made roofline says, learned from many tasks.

It is kept as text, which names the features that it was trained on, and predicts without LightGBM. A text may be
anybody's: it is read as data, in bounds, and refused where anything in it is not as `dumps` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from metasched.cost.baseline import analytic_score
from metasched.cost.estimate.footprint import Array
from metasched.cost.features import NAMES, Features
from metasched.cost.learning.forest import LEAVES, Forest, Tree
from metasched.cost.learning.task_times import Flags, Positions
from metasched.errors import MetaschedError
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.integers import is_number

FORMAT = 4
SHIPPED_FILE = Path(__file__).parent.parent / "trained.json"
_TRAIN_HINT = (
    "`metasched model train` makes one of your measurements; `python -m benchmarks.yardstick.train` that of the package"
)
# The longest text, in bytes, and the most of what it has.
MOST_BYTES = 2_000_000
MOST_TREES = 10_000
_MOST_TASKS = 10_000
_MOST_TARGETS = 100
_MOST_TEXT_CHARACTERS = 4000
_OPERATION_FLOPS_COLUMN = NAMES.index("s0.flops_per_operation")
# log2 of the floating-point operations that one use of tile registers does, and of no vector.
_LEAST_TILE_LOG_FLOPS = 12.0
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class ModelError(MetaschedError):
    """A saved model that cannot be used here; the message says why."""


@dataclass(frozen=True)
class TaughtTask:
    """A task that a model was trained on: the hash of its program, its name, and of how many records."""

    program_hash: str
    name: str
    records: int


@dataclass(frozen=True)
class TrainingFacts:
    """What a model was trained on.

    `targets` are those of the tasks, as texts. `date` is the day, as in 2026-11-22, `versions` are those of metasched,
    Numba and llvmlite. `data` is a hash of the measurements, and `held_out` how well models that were trained in the
    same way ranked tasks of kinds that they had not seen: figures by name. `gains` says by how much the splits on a
    feature of the forest for all candidates reduced the error, for each that has any.
    """

    tasks: tuple[TaughtTask, ...] = ()
    targets: tuple[str, ...] = ()
    date: str = ""
    versions: str = ""
    data: str = ""
    held_out: tuple[tuple[str, float], ...] = ()
    gains: tuple[tuple[str, float], ...] = ()

    @property
    def records(self) -> int:
        return sum(task.records for task in self.tasks)


@dataclass(frozen=True)
class TrainedModel:
    """Forests for log2 of the time over the roofline's, up to a constant of each task.

    `forest` is for all candidates; `tiles` is added where the statement that takes longest computes in tile registers:
    what tells such candidates apart tells no others apart. `offset` is log2 of the seconds that a cycle of the roofline
    takes, the median over tasks. `facts` say what it was trained on.
    """

    forest: Forest
    offset: float = 0.0
    facts: TrainingFacts = field(default_factory=TrainingFacts)
    tiles: Forest = Forest(())

    def log_seconds(self, features: Features, values: Array | None = None) -> Array:
        """log2 of the seconds expected, shape (n,), of float32 (n, F); other `values` may stand for those of the
        leaves."""
        found = self.offset - analytic_score(features)
        of_forests: tuple[Array | None, Array | None] = None, None
        if values is not None and values is not self.values:
            of_forests = self._split_values(values)
        for (forest, rows), of_leaves in zip(self.forests_for(features), of_forests, strict=True):
            found[rows] += forest.predict(features[rows], of_leaves)
        return found

    def forests_for(self, features: Features) -> tuple[tuple[Forest, slice | Positions], ...]:
        """Each forest, with those candidates that it judges, of float32 (n, F): positions, or a slice of them."""
        return (self.forest, slice(None)), (self.tiles, np.flatnonzero(uses_tiles(features)))

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The trees of both forests."""
        return (*self.forest.trees, *self.tiles.trees)

    @cached_property
    def values(self) -> Array:
        """The values of every leaf of both forests, (trees, LEAVES)."""
        return np.concatenate([self.forest.values, self.tiles.values])

    def with_values(self, values: Array) -> TrainedModel:
        """A model of these trees with other values of the leaves, (trees, LEAVES), to seven digits; forests whose
        values are equal stay as they are.
        """
        of_forest, of_tiles = self._split_values(values)
        return replace(self, forest=self.forest.with_values(of_forest), tiles=self.tiles.with_values(of_tiles))

    def _split_values(self, values: Array) -> tuple[Array, Array]:
        first = len(self.forest.trees)
        return values[:first], values[first:]

    def dumps(self) -> str:
        """The model as text: JSON, a tree a line, features by their names."""
        gains = dict(self.facts.gains)
        used = sorted({feature for tree in self.trees for feature, _, _ in tree.nodes})
        place = {feature: n for n, feature in enumerate(used)}
        head = {
            "format": FORMAT,
            "tasks": [[task.program_hash, task.name, task.records] for task in self.facts.tasks],
            "targets": list(self.facts.targets),
            "date": self.facts.date,
            "versions": self.facts.versions,
            "data": self.facts.data,
            "held_out": dict(self.facts.held_out),
            "offset": self.offset,
            "features": [NAMES[feature] for feature in used],
            "gains": [gains.get(NAMES[feature], 0.0) for feature in used],
        }
        parts = [json.dumps(head)[:-1], *(_forest_text(name, forest, place) for name, forest in self._forests.items())]
        return ", ".join(parts) + "}\n"

    @property
    def _forests(self) -> dict[str, Forest]:
        return {"trees": self.forest, "tile_trees": self.tiles}

    @classmethod
    def loads(cls, text: str) -> TrainedModel:
        """A model from text. Raises ModelError for a text that is no model, and for features that no longer are."""
        try:
            return _model(json.loads(text, parse_constant=_refuse_constant))
        except (ValueError, RecursionError) as error:
            raise ModelError(f"not a saved cost model: {error}", hint=_TRAIN_HINT) from error


def uses_tiles(features: Features) -> Flags:
    """Whether what takes longest of each candidate computes in tile registers, shape (n,)."""
    found: Flags = features[:, _OPERATION_FLOPS_COLUMN] >= _LEAST_TILE_LOG_FLOPS
    return found


def _forest_text(name: str, forest: Forest, place: Mapping[int, int]) -> str:
    """A forest as text, a tree a line."""
    trees = [
        json.dumps([[[place[f], float(str(above)), left] for f, above, left in tree.nodes], list(tree.values)])
        for tree in forest.trees
    ]
    return f'"{name}": [\n' + ",\n".join(trees) + "\n]"


UNTRAINED_MODEL = TrainedModel(Forest(()), -float(np.log2(3e9)))


def read_model(path: Path) -> TrainedModel:
    """The model of a file. Raises ModelError, which names the file, where it is none, and OSError."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ModelError(f"{path}: not a saved cost model: it is longer than {MOST_BYTES} bytes", hint=_TRAIN_HINT)
    try:
        return TrainedModel.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: not a saved cost model: it is not text", hint=_TRAIN_HINT) from error
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


@cache
def read_shipped_model() -> TrainedModel:
    """The model that is installed with the package."""
    return read_model(SHIPPED_FILE)


# --- reading what may be anybody's


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def _model(state: object) -> TrainedModel:
    """Raises ValueError for what is not a model's state, ModelError where it is another version's."""
    if not isinstance(state, dict):
        raise ValueError("a model is a JSON object")  # noqa: TRY004
    found: Any = state.get("format")
    if type(found) is not int:
        raise ValueError("it has no `format`")
    if found != FORMAT:
        raise ModelError(f"this model has format {found}, and {FORMAT} is read", hint=_TRAIN_HINT)
    described = {"tasks", "targets", "date", "versions", "data", "held_out", "gains"}
    wanted = described | {"format", "offset", "features", "trees", "tile_trees"}
    apart = sorted(wanted ^ set(state))
    if apart:
        raise ValueError(f"`{apart[0][:40]}` is {'not there' if apart[0] in wanted else 'nothing that a model has'}")
    names = [_text(name, "a feature") for name in _list(state["features"], "features", len(NAMES))]
    missing = [name for name in names if name not in NAMES]
    if missing:
        raise ModelError(f"this model was trained on a feature `{missing[0]}`, which is not there", hint=_TRAIN_HINT)
    if len(set(names)) < len(names):
        raise ValueError("a feature is there twice")
    gains = [_number(gain, "a gain") for gain in _list(state["gains"], "gains", len(NAMES))]
    if len(gains) != len(names) or min(gains, default=0.0) < 0:
        raise ValueError("`gains` has a number for each feature, none below zero")
    facts = TrainingFacts(
        tuple(map(_task, _list(state["tasks"], "tasks", _MOST_TASKS))),
        tuple(_text(target, "a target") for target in _list(state["targets"], "targets", _MOST_TARGETS)),
        _text(state["date"], "date"),
        _text(state["versions"], "versions"),
        _text(state["data"], "data"),
        _figures(state["held_out"]),
        tuple((name, gain) for name, gain in zip(names, gains, strict=True) if gain),
    )
    places = [NAMES.index(name) for name in names]
    forest, tiles = (
        Forest(tuple(_tree(tree, places) for tree in _list(state[name], name, MOST_TREES)))
        for name in ("trees", "tile_trees")
    )
    return TrainedModel(forest, _number(state["offset"], "offset"), facts, tiles)


def _figures(state: object) -> tuple[tuple[str, float], ...]:
    if not isinstance(state, dict) or len(state) > _MOST_TARGETS:
        raise ValueError(f"`held_out` is an object of at most {_MOST_TARGETS} figures")
    return tuple((_text(name, "a figure"), _number(value, "a figure")) for name, value in state.items())


def _task(state: object) -> TaughtTask:
    parts = _list(state, "a task", 3)
    if len(parts) != 3 or type(parts[2]) is not int or not 0 <= parts[2] < 1 << 53:
        raise ValueError("a task is the hash of its program, its name, and how many records it has")
    return TaughtTask(_text(parts[0], "a hash"), _text(parts[1], "a name"), parts[2])


def _tree(state: object, places: Sequence[int]) -> Tree:
    parts = _list(state, "a tree", 2)
    if len(parts) != 2:
        raise ValueError("a tree has conditions, and values")
    nodes = tuple(_node(node, places) for node in _list(parts[0], "conditions", LEAVES - 1))
    values = tuple(_number(value, "a value") for value in _list(parts[1], "values", LEAVES))
    if len(values) != len(nodes) + 1:
        raise ValueError("a tree has one value more than conditions")
    return Tree(nodes, values)


def _node(state: object, places: Sequence[int]) -> tuple[int, np.float32, int]:
    parts = _list(state, "a condition", 3)
    if len(parts) != 3 or type(parts[0]) is not int or not 0 <= parts[0] < len(places):
        raise ValueError("a condition is a feature by position, a threshold, and leaves")
    if type(parts[2]) is not int or not 0 <= parts[2] < 1 << LEAVES:
        raise ValueError(f"the leaves of a condition are {LEAVES} bits")
    return places[parts[0]], np.float32(_number(parts[1], "a threshold")), parts[2]


def _list(value: object, what: str, most: int) -> list[object]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{what} {'are' if what.endswith('s') else 'is'} a list of at most {most}")
    return value


def _number(value: object, what: str) -> float:
    """A number that a float32 holds."""
    # In this order NaN is refused, too, and an integer of any length is compared without being converted.
    if not (is_number(value) and abs(value) <= _LARGEST_FLOAT32):
        raise ValueError(f"{what} is a finite number of moderate size")
    return float(value)


def _text(value: object, what: str) -> str:
    """A text that a terminal shows as it is."""
    if not isinstance(value, str) or len(value) > _MOST_TEXT_CHARACTERS or not value.isprintable():
        raise ValueError(f"{what} is a text of at most {_MOST_TEXT_CHARACTERS} characters that can be printed")
    return value
