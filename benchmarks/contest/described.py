"""What a table's structures are to a search: their variables, decisions, measured rows and features.

Sketches are replayed for it, which takes seconds a table; what was made is kept in a folder for the next time.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.contest.stored import DRAWN, StoredTable
from benchmarks.yardstick.samples import sketch_of, sources_hash
from metasched.calibration.store import core_of
from metasched.cost.core import Core
from metasched.cost.features import FeatureProgram, Features
from metasched.cost.learning.ranking import Array
from metasched.lang.decisions import decision_text
from metasched.search.space_protocol import Rows
from metasched.space.sketch import Sketch
from metasched.target import Target

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class Structure:
    """A structure of a table, with its measured rows.

    `decisions` are its structural ones by address, as text; `variables` are the columns of each random variable by
    address. `rows` is (n, columns), `seconds` (n,), `features` (n, F); `drawn`, (n,), says which came from the prior.
    """

    decisions: dict[str, str]
    columns: tuple[str, ...]
    variables: dict[str, tuple[int, ...]]
    rows: Rows
    seconds: Array
    features: Features
    drawn: Flags

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Table:
    """A table as searches see it: its structures in the order of their decisions, which no measurement has chosen."""

    name: str
    program: ms.Program
    structures: tuple[Structure, ...]

    def __len__(self) -> int:
        return sum(map(len, self.structures))

    @property
    def best_s(self) -> float:
        return min(float(structure.seconds.min()) for structure in self.structures)


def described(stored: StoredTable, folder: Path | None = None, core: Core | None = None) -> Table:
    """A stored table with its features, by the constants of a `core` (those of the machine): from the folder, or made
    and put there."""
    by = core_of(Target.parse(stored.drawn.target)) if core is None else core
    if folder is None:
        return _made(stored, by)
    lines = "".join(part.dumps() for part in stored.parts)
    key = hashlib.sha256(f"{lines}{by}{sources_hash()}".encode()).hexdigest()[:24]
    path = folder / f"{stored.name}-{key}.pickle"
    if path.exists():
        kept: Table = pickle.loads(path.read_bytes())
        return kept
    made = _made(stored, by)
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(pickle.dumps(made))
    part.replace(path)
    return made


def _made(stored: StoredTable, core: Core) -> Table:
    program = stored.drawn.program()
    # A structure may be in both parts: its sketch has the same text.
    codes: dict[str, list[tuple[tuple[int, ...], float, bool]]] = defaultdict(list)
    sketches: dict[str, Sketch] = {}
    for part in stored.parts:
        for code in part.codes:
            text = part.sketches[code.sketch]
            if text not in sketches:
                sketches[text] = sketch_of(part, code.sketch, program)
            codes[text].append((code.row, min(code.first_s, code.second_s), part.pool == DRAWN))
    target = Target.parse(stored.drawn.target)
    found = [_structure(sketches[text], some, target, core) for text, some in codes.items()]
    return Table(stored.name, program, tuple(sorted(found, key=lambda one: sorted(one.decisions.items()))))


def _structure(
    sketch: Sketch, codes: list[tuple[tuple[int, ...], float, bool]], target: Target, core: Core
) -> Structure:
    # By their numbers: the order in which they were measured says what was bred from what.
    codes = sorted(codes)
    rows = np.array([row for row, _, _ in codes], np.int64).reshape(len(codes), -1)
    return Structure(
        {address: decision_text(decision) for address, decision in sketch.structure.items()},
        sketch.columns,
        {variable.address: tuple(range(len(sketch.columns)))[variable.span] for variable in sketch.variables},
        rows,
        np.array([seconds for _, seconds, _ in codes]),
        FeatureProgram(sketch.func, sketch.columns, target, core)(rows),
        np.array([drawn for _, _, drawn in codes], np.bool_),
    )
