"""Programs that are written as text, at sizes in the order of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from metasched.ir.program import Program
from metasched.lang import parse_program


@dataclass(frozen=True)
class Written:
    """A program of a name and a `text` from its parameters on, at its sizes."""

    operator: str
    text: str
    sizes: tuple[int, ...]

    @property
    def case(self) -> str:
        return f"{self.operator} {'x'.join(map(str, self.sizes))}"

    def program(self) -> Program:
        text = f"program {self.operator}{self.text}\n"
        names = dict(parse_program(text).params)
        return parse_program(text, **dict(zip(names, self.sizes, strict=True)))


def at_sizes(
    texts: Mapping[str, str], sizes: Mapping[str, tuple[tuple[int, ...], ...]]
) -> Iterator[tuple[Written, ...]]:
    """The sizes of each program."""
    for name, each in sizes.items():
        yield tuple(Written(name, texts[name], size) for size in each)
