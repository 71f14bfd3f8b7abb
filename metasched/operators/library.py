"""The program files: one an operator, parametric in its shape.

    program = load("conv2d_nhwc", H=14, W=14, CI=256, CO=256)

`NAME.ms` beside this file is the operator `NAME`; its first comment says what it computes, and the layout of its
arguments. Output sizes follow from the parameters.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.ir.source import ProgramDef, Setting
from metasched.lang.elaborate import elaborate
from metasched.lang.load import parse_definitions
from metasched.lang.report import Report, did_you_mean
from metasched.operators.groups import check_groups
from metasched.operators.limits import check_limits

_SUFFIX = ".ms"


@cache
def names() -> tuple[str, ...]:
    """The operators there are, sorted."""
    entries = (entry.name for entry in files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in entries if name.endswith(_SUFFIX)))


def source(name: str) -> str:
    """The text of an operator's file. Raises MetaschedError for one that is not there."""
    return _file(name).read_text(encoding="utf-8")


def require(name: str) -> None:
    """Raise MetaschedError for an operator that is not there."""
    if name not in names():
        hint = did_you_mean(name, names()) or f"the operators are {', '.join(names())}"
        raise MetaschedError(f"there is no operator `{name}`\n  hint: {hint}")


def _file(name: str) -> Traversable:
    require(name)
    return files(__package__).joinpath(name + _SUFFIX)


def load(name: str, /, **params: Setting) -> Program:
    """An operator of the library with its parameters set; those not given take their defaults.

    Raises:
        MetaschedError: when there is no such operator.
        LanguageError: when a parameter is unknown, or the sizes do not go together.
    """
    file = _file(name)
    definition, report = _definition(name), Report(file.read_text(encoding="utf-8"), str(file))
    check_groups(definition, params, report)
    check_limits(definition, params, report)
    return elaborate(definition, params, report)


@cache
def _definition(name: str) -> ProgramDef:
    """As written: reading it takes much longer than setting its parameters."""
    (definition,) = parse_definitions(source(name), str(_file(name)))
    return definition
