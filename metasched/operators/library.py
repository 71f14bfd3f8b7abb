"""The program files: one an operator, parametric in its shape.

    program = load("conv2d_nhwc", H=14, W=14, CI=256, CO=256)

`NAME.ms` beside this file is the operator `NAME`; its first comment says what it computes, and the layout of its
arguments. Output sizes follow from the parameters. `metasched.operators.files` finds those of other packages.
"""

from __future__ import annotations

from functools import cache

from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.ir.source import ProgramDef, Setting
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.elaboration.elaborate import elaborate
from metasched.lang.load import parse_definitions
from metasched.operators.files import file_of
from metasched.operators.groups import check_groups
from metasched.operators.limits import check_limits
from metasched.support.messages import listing


def source(name: str) -> str:
    """The text of an operator's file. Raises MetaschedError if there is no such operator."""
    return file_of(name).read_text(encoding="utf-8")


def load(name: str, /, **params: Setting) -> Program:
    """An operator of the library with its parameters set; those not given take their defaults.

        >>> print(ms.operator("transpose", M=4, N=8))
        program transpose[M=512, N=512, T=f32](X: T[M, N]) -> Y: T[N, M]:
            Y[j, i] = X[i, j]

    Raises:
        MetaschedError: when there is no such operator, or two packages have it.
        LanguageError: when a parameter is unknown, or the sizes do not go together.
    """
    file = file_of(name)
    definition, diagnostics = _definition(name), Diagnostics(file.read_text(encoding="utf-8"), str(file))
    check_groups(definition, params, diagnostics)
    check_limits(definition, params, diagnostics)
    return elaborate(definition, params, diagnostics)


@cache
def _definition(name: str) -> ProgramDef:
    """The program as written: reading it takes much longer than setting its parameters."""
    definitions = parse_definitions(source(name), str(file_of(name)))
    if [definition.name for definition in definitions] != [name]:
        there = listing(definition.name for definition in definitions)
        raise MetaschedError(
            f"{file_of(name)}: the file of the operator `{name}` holds {there}, not that program alone"
        )
    return definitions[0]
