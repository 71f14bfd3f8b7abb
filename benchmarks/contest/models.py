"""Models that searches are played with: nothing, the roofline, from nothing, of other families, and the installed; and
those of other families that another CPU has taught."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.contest import elsewhere
from benchmarks.contest.elsewhere import DESKTOP, as_here, in_ratio, seen_here, seen_there
from benchmarks.yardstick.data import DATA, TimedTask, read_tasks
from benchmarks.yardstick.samples import sources_hash
from benchmarks.yardstick.tasks import TaskSpec
from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import TrainedModel
from metasched.cost.learning.training import train
from metasched.cost.model import CostModel, Model
from metasched.cost.model_registry import MakeModel, model_of
from metasched.operators import TWELVE

NONE, ROOFLINE, SCRATCH, TRANSFERRED, PRETRAINED = (
    "no model",
    "roofline",
    "from scratch",
    "transferred",
    "pre-trained",
)
MODELS = (NONE, ROOFLINE, SCRATCH, TRANSFERRED, PRETRAINED)
ELSEWHERE_IN_RATIO, ELSEWHERE_AS_HERE = "transferred, times in ratio", "transferred, times as here"


class RandomModel:
    """Scores without looking: the baseline that a model has to beat. Reproducible by seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def fit(self, own: TaskTimes) -> None:
        """Learns nothing."""

    def predict(self, features: Features) -> Array:
        return self._rng.random(len(features))


# What is seen of tasks, where features are kept in a folder.
_Seen = Callable[[Sequence[TimedTask], Path | None], Iterable[TaskTimes]]


def _in_ratio(tasks: Sequence[TimedTask], folder: Path | None) -> Iterable[TaskTimes]:
    return seen_there(tasks, DESKTOP, in_ratio, folder)


def _as_here(tasks: Sequence[TimedTask], folder: Path | None) -> Iterable[TaskTimes]:
    return seen_there(tasks, DESKTOP, as_here, folder)


_SEEN: Mapping[str, _Seen] = {TRANSFERRED: seen_here, ELSEWHERE_IN_RATIO: _in_ratio, ELSEWHERE_AS_HERE: _as_here}
# What decides what is taught, beside the sources that features come from.
_TAUGHT_BY = (Path(elsewhere.__file__), Path(__file__))


def maker(name: str, task: str, folder: Path | None) -> MakeModel:
    """What makes a model for a task of the twelve, from a seed.

    Args:
        name: of `MODELS`; "transferred" learned from the yardstick's tasks of other families than this one's, and
            "pre-trained" is what is installed, which has learned from candidates of the twelve themselves. Or
            "transferred, times ...", which learned from the same tasks on a CPU that is made up (`elsewhere`).
        task: of the twelve operators.
        folder: where the features of the yardstick are kept.
    """
    if name in _SEEN:
        taught = transferred_model(TaskSpec(TWELVE[task].operator).family, folder, name)
        return lambda seed: CostModel(seed, taught)
    made: dict[str, MakeModel] = {
        NONE: RandomModel,
        ROOFLINE: model_of("roofline"),
        SCRATCH: _from_scratch,
        PRETRAINED: model_of("trees"),
    }
    return made[name]


def _from_scratch(seed: int) -> Model:
    return CostModel(seed)


@cache
def transferred_model(family: str, folder: Path | None, name: str = TRANSFERRED) -> TrainedModel:
    """What the yardstick's tasks of other families teach on the CPU of a model's name: kept in the folder, if there is
    one, by all that it depends on."""
    path = None if folder is None else folder / f"taught-{_key(family, name)}.json"
    if path is not None and path.exists():
        return TrainedModel.loads(path.read_text(encoding="utf-8"))
    tasks = [task for task in read_tasks(DATA) if task.family != family]
    taught = train(list(_SEEN[name](tasks, folder)), 0)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(taught.dumps(), encoding="utf-8")
    return taught


def _key(family: str, name: str) -> str:
    sources = (sources_hash().encode(), DATA.read_bytes(), *(path.read_bytes() for path in _TAUGHT_BY))
    return hashlib.sha256(b"".join((family.encode(), name.encode(), *sources))).hexdigest()[:24]


def train_transferred(names: Sequence[str], tasks: Sequence[str], folder: Path | None) -> None:
    """Train what is transferred, before processes that would each do so are begun."""
    for name in names:
        for task in tasks if name in _SEEN else ():
            transferred_model(TaskSpec(TWELVE[task].operator).family, folder, name)
