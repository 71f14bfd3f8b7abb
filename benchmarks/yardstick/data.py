"""The file of measurements: a line of JSON a task."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import metasched as ms
from benchmarks.yardstick.tasks import TaskSpec
from metasched.support.messages import with_hint

DATA = Path(__file__).parent / "times.jsonl"
# Those of tensor instructions, which were measured on another CPU.
TENSOR_DATA = Path(__file__).parent / "tensor_times.jsonl"
# How the candidates of a line were drawn: at random from the space, or as mutations of the best ones known.
SPACE, NEAR_BEST = "space", "near_best"


@dataclass(frozen=True)
class TimedCode:
    """A candidate that has code of its own: its sketch by number, its row, and its times at two moments, in seconds."""

    sketch: int
    row: tuple[int, ...]
    first_s: float
    second_s: float


@dataclass(frozen=True)
class TimedTask:
    """The measurements of a task.

    `sketches` are traces whose decisions are open; an expert's trace is one without open decisions. `known` says which
    of the `codes` are not of the pool, but what other sources found: `search`, or the name of an expert trace.
    `failures` counts candidates without a time by reason.
    """

    operator: str
    params: Mapping[str, Any]
    text: str | None
    suite: str | None
    family: str
    pool: str
    target: str
    sketches: tuple[str, ...]
    codes: tuple[TimedCode, ...]
    known: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def spec(self) -> TaskSpec:
        return TaskSpec(self.operator, self.params, self.text, self.suite)

    def program(self) -> ms.Program:
        return self.spec.program()

    def dumps(self) -> str:
        """One line of JSON; a code is [sketch, row, first, second], seconds to four digits.

        A sketch is given by the numbers of its lines among all `lines`: those of a task share most of them.
        """
        data = asdict(self)
        texts = [sketch.splitlines() for sketch in self.sketches]
        numbers = {line: n for n, line in enumerate(dict.fromkeys(line for text in texts for line in text))}
        data["lines"] = list(numbers)
        data["sketches"] = [[numbers[line] for line in text] for text in texts]
        data["codes"] = [
            [c.sketch, list(c.row), _round_seconds(c.first_s), _round_seconds(c.second_s)] for c in self.codes
        ]
        return json.dumps({name: value for name, value in data.items() if value not in (None, {})})

    @classmethod
    def loads(cls, line: str) -> TimedTask:
        data = json.loads(line)
        codes = tuple(TimedCode(s, tuple(row), first, second) for s, row, first, second in data.pop("codes"))
        lines = data.pop("lines")
        sketches = tuple("\n".join(lines[n] for n in sketch) + "\n" for sketch in data.pop("sketches"))
        absent: dict[str, Any] = {"params": {}, "text": None, "suite": None}
        return cls(**{**absent, **data}, sketches=sketches, codes=codes)


def _round_seconds(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def read_tasks(path: Path = DATA) -> Iterator[TimedTask]:
    """The tasks of a file; none where there is no file. A last line that was not written whole is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield TimedTask.loads(line)


def obstacle_to_adding(tasks: Iterable[TimedTask], target: ms.Target) -> str | None:
    """Why times taken on a target may not be put beside these; None where they may.

    A model learns from a file as from one machine: what differs between two CPUs would be learned as a property of the
    codes that were timed on one of them.
    """
    others = sorted({name for task in tasks if (name := ms.Target.parse(task.target).name) != target.name})
    if not others:
        return None
    return with_hint(
        f"these times were measured on {', '.join(others)}, and this machine is {target.name}: times of two CPUs are "
        "not put into one file",
        "--data FILE names another one",
    )


def append(task: TimedTask, path: Path = DATA) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(task.dumps() + "\n")
