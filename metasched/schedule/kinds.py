"""The kinds of a primitive's parameters and results, from which its declaration is read.

A primitive is declared by its own signature, in these names. `LoopName` is a string to the type checker and a
loop handle to whoever calls the `Schedule` method.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from metasched.ir.nodes import Expr


class ArgumentKind(Enum):
    # By identity: an enum's own is a call of Python for each argument.
    __hash__ = object.__hash__

    BLOCK = "a block"
    LOOP = "a loop"
    TARGET = "a loop or a block"
    LOCATION = "a loop, or where a block may be computed"
    INT = "an integer or an integer random variable"
    SETTING = "an integer, an integer random variable, True or False"
    FACTOR = "an integer, an integer random variable, or None"
    LITERAL = "a number or a string"
    STR = "a string"
    FEATURE = "the name of an instruction set, as a string"
    PERMISSION = "the name of what may be allowed, as a string"
    NUMBER = "a number"
    BOOL = "True or False"
    INDEX_MAP = 'an index map, as text such as "i, j -> j//16, i, j%16" or as a function'
    NONE = "nothing"


class Named(Enum):
    """The kind of name that a text is."""

    BLOCK = "a block"
    BUFFER = "a buffer"


BlockName = Annotated[str, ArgumentKind.BLOCK]
LoopName = Annotated[str, ArgumentKind.LOOP]
TargetName = Annotated[str, ArgumentKind.TARGET]
Location = Annotated[str, ArgumentKind.LOCATION]
IntExpr = Annotated[Expr, ArgumentKind.INT]
Factor = Annotated[Expr | None, ArgumentKind.FACTOR]
Literal = Annotated[str | int | float | bool, ArgumentKind.LITERAL]
Text = Annotated[str, ArgumentKind.STR]
# Texts that are names in the program: translating a trace to another program renames them.
BlockText = Annotated[str, ArgumentKind.STR, Named.BLOCK]
BufferText = Annotated[str, ArgumentKind.STR, Named.BUFFER]
Feature = Annotated[str, ArgumentKind.FEATURE]
PermissionName = Annotated[str, ArgumentKind.PERMISSION]
Number = Annotated[int, ArgumentKind.NUMBER]
Flag = Annotated[bool, ArgumentKind.BOOL]
IndexMapText = Annotated[str, ArgumentKind.INDEX_MAP]
# True is 1, and False is 0.
Setting = Annotated[Expr, ArgumentKind.SETTING]

# Where `sample_compute_location` can put a block besides under a loop. Not identifiers of any loop.
ROOT = "root"
INLINE = "inline"
