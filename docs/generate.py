"""Write docs/primitives.md from the declarations of the primitives: `make docs`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


def page() -> str:
    """The whole page as text."""
    parts = [HEAD]
    for title, belongs in KINDS:
        chosen = [d for d in registry().values() if belongs(d)]
        if chosen:
            parts.append(f"## {title}\n")
            parts += [entry(declaration) for declaration in chosen]
    return "\n".join(parts)


def entry(declaration: Declaration) -> str:
    """One primitive: its signature, and its documentation as it is laid out."""
    returns = (
        ""
        if declaration.result.name == "NONE"
        else f"Returns {declaration.result.value}" + (" each.\n\n" if declaration.many_results else ".\n\n")
    )
    return f"### `{declaration.signature}`\n\n```text\n{declaration.doc.rstrip()}\n```\n\n{returns}".rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
