"""The files of the frozen table: for each of the twelve operators a file of two lines, in the yardstick's form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.yardstick.data import SPACE, TimedTask, read_tasks

FOLDER = Path(__file__).parent / "codes"
# How candidates came in: drawn from the prior of the space (the yardstick's word), or bred from the fastest before.
DRAWN, BRED = SPACE, "bred"


@dataclass(frozen=True)
class StoredTable:
    """The measured codes of one operator: `drawn` from the space, and `bred` from the fastest of those.

    Both have the same program and target; each numbers its own sketches.
    """

    name: str
    drawn: TimedTask
    bred: TimedTask

    @property
    def parts(self) -> tuple[TimedTask, TimedTask]:
        return self.drawn, self.bred

    def __len__(self) -> int:
        """How many codes there are."""
        return sum(len(part.codes) for part in self.parts)

    @property
    def best_s(self) -> float:
        """The shortest time known, in seconds; infinite for a table without codes."""
        times = (min(code.first_s, code.second_s) for part in self.parts for code in part.codes)
        return min(times, default=float("inf"))


def path_of(name: str, folder: Path = FOLDER) -> Path:
    return folder / f"{name}.jsonl"


def load(name: str, folder: Path = FOLDER) -> StoredTable | None:
    """The table of an operator; None where nothing was measured."""
    parts = {part.pool: part for part in read_tasks(path_of(name, folder))}
    return StoredTable(name, parts[DRAWN], parts[BRED]) if parts else None


def save(table: StoredTable, folder: Path = FOLDER) -> None:
    """Write a table in place of the one before, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(table.name, folder)
    part = path.with_suffix(".part")
    part.write_text("".join(f"{one.dumps()}\n" for one in table.parts), encoding="utf-8")
    part.replace(path)


def names_there(wanted: Sequence[str], folder: Path = FOLDER) -> list[str]:
    """Those of some operators that have a table."""
    return [name for name in wanted if path_of(name, folder).exists()]
