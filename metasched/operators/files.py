"""Where the file of each operator is: those of the library lie beside this one, those of other packages where they say.

A package makes an operator known by an entry point in the group `metasched.operators`, whose value is the path of its
program: `swish = Path(__file__).with_name("swish.ms")`. Expert traces for it lie in `traces/` beside the program. What
is installed is there by name; guesses are made from the traces of the library only, whatever else is installed.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from metasched.errors import MetaschedError
from metasched.support.messages import did_you_mean
from metasched.support.registry import Registry, UnfitError, hint_for_two_packages, origin

PROGRAM_SUFFIX = ".ms"
TRACE_SUFFIX = ".trace"
_TRACES = "traces"


def _program_file(value: object) -> Path:
    if not isinstance(value, Path):
        raise UnfitError(f"it is {value!r}, not the path of a program: Path(__file__).with_name('NAME.ms')")
    if value.suffix != PROGRAM_SUFFIX or not value.is_file():
        raise UnfitError(f"there is no program in {value}")
    return value


OPERATORS = Registry("metasched.operators", "operator", _program_file, MetaschedError)


@cache
def library_names() -> tuple[str, ...]:
    """The operators of the library, sorted."""
    return _stems(files(__package__), PROGRAM_SUFFIX)


@cache
def added_names() -> frozenset[str]:
    """The operators of other packages; these are looked for once in a process."""
    return frozenset(OPERATORS.names())


def names() -> tuple[str, ...]:
    """The operators there are, those of other packages too, sorted."""
    return tuple(sorted({*library_names(), *added_names()}))


def file_of(name: str) -> Traversable:
    """The file of an operator. Raises MetaschedError if there is none, if two packages have it, or if it cannot be
    loaded.
    """
    added = name in added_names()
    if name in library_names():
        if added:
            other = origin(OPERATORS.points()[name])
            raise MetaschedError(
                f"two packages have an operator `{name}`: metasched and {other}",
                hint=hint_for_two_packages(OPERATORS.kind),
            )
        return files(__package__).joinpath(name + PROGRAM_SUFFIX)
    if added:
        return OPERATORS.get(name)
    hint = did_you_mean(name, names()) or f"the operators are {', '.join(names())}"
    raise MetaschedError(f"there is no operator `{name}`", hint=hint)


@cache
def library_trace_names() -> tuple[str, ...]:
    """The expert traces of the library, as `OPERATOR.VARIANT`, sorted."""
    return _stems(files(__package__).joinpath(_TRACES), TRACE_SUFFIX)


def trace_names(operator: str) -> tuple[str, ...]:
    """The expert traces of one operator. Raises MetaschedError as `file_of`."""
    return tuple(name for name in _stems(_traces_of(operator), TRACE_SUFFIX) if name.partition(".")[0] == operator)


def trace_file(name: str) -> Traversable:
    """The file of an expert trace `OPERATOR.VARIANT`, which is there."""
    return _traces_of(name.partition(".")[0]).joinpath(name + TRACE_SUFFIX)


def _traces_of(operator: str) -> Traversable:
    file = file_of(operator)
    return file.parent / _TRACES if isinstance(file, Path) else files(__package__).joinpath(_TRACES)


def _stems(folder: Traversable, suffix: str) -> tuple[str, ...]:
    found = (entry.name for entry in folder.iterdir()) if folder.is_dir() else iter(())
    return tuple(sorted(name.removesuffix(suffix) for name in found if name.endswith(suffix)))
