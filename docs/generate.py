"""Write docs/primitives.md and docs/operators.md from what they describe: `make docs`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from metasched import operators
from metasched.ir.source_printer import print_params
from metasched.lang.load import parse_definitions
from metasched.schedule.primitive import Declaration, registry

PAGE = Path(__file__).parent / "primitives.md"
HEAD = """\
# Primitives and random variables

Every method of a `Schedule`, from its own declaration in `metasched/schedule/primitives/` (written by `make docs`; a
test compares). A block, loop or random variable is given by the handle that an earlier method returned.
"""
KINDS: tuple[tuple[str, Callable[[Declaration], bool]], ...] = (
    ("Looking", lambda d: d.pure and not d.random),
    ("Transforming", lambda d: not d.pure),
    ("Random variables", lambda d: d.random),
)
NOT_BUILT = """\
## Not built

- `blockize` (TVM: a nest of loops as one block) has nothing to do here: blocks are single statements, `tensorize`
  matches loops, and `compute_at` moves a statement at the granularity of the loop that it is given.
- Binding loops to the threads of a GPU: kernels are for CPUs.
"""


def page() -> str:
    """The whole page as text."""
    parts = [HEAD]
    for title, belongs in KINDS:
        chosen = [d for d in registry().values() if belongs(d)]
        if chosen:
            parts.append(f"## {title}\n")
            parts += [entry(declaration) for declaration in chosen]
    return "\n".join([*parts, NOT_BUILT])


def entry(declaration: Declaration) -> str:
    """One primitive: its signature, and its documentation as it is laid out."""
    returns = (
        ""
        if declaration.result.name == "NONE"
        else f"Returns {declaration.result.value}" + (" each.\n\n" if declaration.many_results else ".\n\n")
    )
    return f"### `{declaration.signature}`\n\n```text\n{declaration.doc.rstrip()}\n```\n\n{returns}".rstrip() + "\n"


OPERATORS = Path(__file__).parent / "operators.md"
OPERATORS_HEAD = """\
# The operator library

What `ms.operator(NAME, ...)` loads, and `metasched show op:NAME` shows: a program file each, in
`metasched/operators/`, whose comments these are (written by `make docs`; a test compares). Parameters have defaults;
`T`, `U` and `ACC` are element types (see [language.md](language.md#types)). *Expert traces* are schedules that people
wrote: `ms.operators.expert_traces(NAME)`.
"""


def operators_page() -> str:
    """The whole page as text."""
    return "\n".join([OPERATORS_HEAD, *(operator_entry(name) for name in operators.names())])


def operator_entry(name: str) -> str:
    """One operator: its parameters, its comment, its expert traces."""
    source = operators.source(name)
    (definition,) = parse_definitions(source)
    params = print_params(tuple((p.name, p.default) for p in definition.params))
    about = " ".join(line.removeprefix("#").strip() for line in source.splitlines() if line.startswith("#"))
    parts = [f"### `{name}{params}`", about]
    experts = [operators.expert(n) for n in operators.expert_names() if n.partition(".")[0] == name]
    parts += [f"- expert trace `{e.variant}`: {e.about}" for e in experts]
    return "\n\n".join(parts[:2]) + "\n" + "".join(f"\n{line}" for line in parts[2:]) + ("\n" if experts else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    OPERATORS.write_text(operators_page(), encoding="utf-8")
