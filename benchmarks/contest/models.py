"""Models that searches are played with: nothing, the roofline, from nothing, of other families, and the installed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from benchmarks.yardstick.contestants import times_of
from benchmarks.yardstick.data import DATA, read
from benchmarks.yardstick.samples import samples
from benchmarks.yardstick.tasks import TaskSpec
from metasched.cost.baseline import RandomModel
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.model import CostModel, Model
from metasched.cost.model_registry import MakeModel, model_of
from metasched.cost.trained import TrainedModel
from metasched.cost.training import train
from metasched.operators import TWELVE

NONE, ROOFLINE, SCRATCH, TRANSFERRED, PRETRAINED = (
    "no model",
    "roofline",
    "from scratch",
    "transferred",
    "pre-trained",
)
MODELS = (NONE, ROOFLINE, SCRATCH, TRANSFERRED, PRETRAINED)


def maker(name: str, task: str, folder: Path | None) -> MakeModel:
    """What makes a model for a task of the twelve, from a seed.

    Args:
        name: of `MODELS`; "transferred" learned from the yardstick's tasks of other families than this one's, and
            "pre-trained" is what is installed, which has learned from candidates of the twelve themselves.
        task: of the twelve operators.
        folder: where the features of the yardstick are kept.
    """
    if name == TRANSFERRED:
        taught = transferred(TaskSpec(TWELVE[task].operator).family, folder)
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
def transferred(family: str, folder: Path | None) -> TrainedModel:
    """What the yardstick's tasks of other families teach: kept in the folder, if there is one."""
    path = None if folder is None else folder / f"without-{family.replace(' ', '-')}.json"
    if path is not None and path.exists():
        return TrainedModel.loads(path.read_text(encoding="utf-8"))
    tasks = [task for task in read(DATA) if task.family != family]
    taught = train([times_of(one) for one in samples(tasks, DEFAULT_CORE, 1, folder)], 0)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(taught.dumps(), encoding="utf-8")
    return taught


def ready(names: Sequence[str], tasks: Sequence[str], folder: Path | None) -> None:
    """Train what is transferred, before processes that would each do so are begun."""
    for task in tasks if TRANSFERRED in names else ():
        transferred(TaskSpec(TWELVE[task].operator).family, folder)
