"""The operators that have expert traces, by the digests of their structures: the file `digests.json` beside this one.

Reading an operator takes some 10 ms. The file says which are worth reading for a program; `make docs` writes it.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from metasched.operators.experts import expert, expert_names
from metasched.operators.library import load
from metasched.operators.structure import structure_digest

FILE = "digests.json"


def variants_of(digest: str) -> tuple[str, ...]:
    """What has a structure of this digest: `OPERATOR` at its usual shape, `OPERATOR.VARIANT` at that of a trace."""
    return tuple(_read_digests().get(digest, ()))


@cache
def _read_digests() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((files(__package__) / FILE).read_text(encoding="utf-8"))
    return found


def make_digests() -> dict[str, list[str]]:
    """The content of the file: each structure once an operator, its usual shape before those of traces."""
    found: dict[str, list[str]] = {}
    for operator in dict.fromkeys(name.partition(".")[0] for name in expert_names()):
        own = [name for name in expert_names() if name.partition(".")[0] == operator]
        programs = {operator: load(operator), **{name: expert(name).program() for name in own}}
        digests = {structure_digest(program.func): variant for variant, program in reversed(programs.items())}
        for digest, variant in digests.items():
            found.setdefault(digest, []).append(variant)
    return dict(sorted(found.items()))
