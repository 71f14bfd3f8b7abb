"""Programs of a few stages, to be elaborated."""

from __future__ import annotations

import pytest

from metasched.errors import LanguageError
from metasched.ir.nodes import Block, Const
from metasched.ir.program import Program
from metasched.lang import parse_program

SIGNATURE = "A: f32[8, 4], B: f32[8]) -> C: f32[8, 4]"


def blocks(program: Program) -> dict[str, Block]:
    return {node.name: node for node in program.func.body.walk() if isinstance(node, Block)}


def shape(program: Program, buffer: str) -> list[int]:
    return [int(n.value) for n in program.func.buffer(buffer).shape if isinstance(n, Const)]


def of_stages(*lines: str, signature: str = SIGNATURE) -> Program:
    return parse_program("\n    ".join([f"program p({signature}:", *lines]))


def mistakes(*lines: str, signature: str = SIGNATURE) -> list[str]:
    """The messages about a program whose inputs are used, so that they are about its stages."""
    with pytest.raises(LanguageError) as caught:
        of_stages(*lines, signature=signature)
    return [d.message for d in caught.value.diagnostics if "never read" not in d.message]
