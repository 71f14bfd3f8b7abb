"""Programs from text and from files."""

from __future__ import annotations

from pathlib import Path

from metasched.errors import Diagnostic, LanguageError
from metasched.ir.program import Program
from metasched.ir.source import At, ProgramDef, Setting
from metasched.lang.diagnostics import Diagnostics, require_text
from metasched.lang.elaboration.elaborate import elaborate
from metasched.lang.text.programs import read_programs
from metasched.support.messages import did_you_mean, listing

SUFFIX = ".ms"
SEPARATOR = "::"
_MARK = "\ufeff"  # of the byte order, which editors put at the beginning of files


def parse_program(text: str, /, **params: Setting) -> Program:
    """The one program of a text, with its parameters set; those not given take their defaults. A byte order mark at its
    beginning is passed over, as that of a file is.

        >>> ms.parse_program("program twice[N=8](A: f32[N]) -> B: f32[N]:\\n    B[i] = 2 * A[i]", N=3)
        <program twice[N=3](A: f32[3]) -> B: f32[3], 1 stage>

    Raises:
        LanguageError: when the text is wrong, holds no or several programs, or a parameter is unknown; it holds
            every mistake found, with line, column and hint.
    """
    require_text("program", text, "load_program(path) reads one from a file")
    return _program(text.removeprefix(_MARK), "<text>", None, params)


def load_program(path: str | Path, /, **params: Setting) -> Program:
    """A program from a file: `FILE.ms`, or `FILE.ms::NAME` where the file holds several.

        >>> ms.load_program("examples/pipelines/blend.ms", H=4, W=6)
        <program blend[H=4, W=6](...) -> ..., 1 stage>

    Raises:
        LanguageError: as `parse_program`.
        OSError: when the file cannot be read.
    """
    filename, name = file_and_name(path)
    return _program(read_source(filename), filename, name, params)


def file_and_name(path: str | Path) -> tuple[str, str | None]:
    """Split `FILE.ms`, or `FILE.ms::NAME` for one of several programs or modules, into file and name."""
    filename, separator, name = str(path).rpartition(SEPARATOR)
    return (filename, name or None) if separator else (str(path), None)


def read_source(filename: str | Path) -> str:
    """The text of a file of programs or traces, without a byte order mark.

    Raises:
        LanguageError: when it is not text.
        OSError: when the file cannot be read.
    """
    try:
        return Path(filename).read_text(encoding="utf-8").removeprefix(_MARK)
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"this is not text: the byte 0x{error.object[error.start]:02x} is not UTF-8"
        raise LanguageError((Diagnostic(line, column, message, "save the file as UTF-8"),), "", str(filename)) from None


def parse_definitions(text: str, filename: str = "<text>") -> tuple[ProgramDef, ...]:
    """Every program of a text as written: names, shapes and types are not checked yet.

    Raises:
        LanguageError: with the first syntax error, or every mistake the definitions show by themselves.
    """
    definitions, diagnostics = read_programs(text.removeprefix(_MARK), filename)
    diagnostics.check()
    return definitions


def _program(text: str, filename: str, name: str | None, params: dict[str, Setting]) -> Program:
    definitions, diagnostics = read_programs(text, filename)
    definition = _pick(definitions, name, filename, diagnostics)
    if definition is None:
        diagnostics.check()
        raise AssertionError("picking no program reports why")
    return elaborate(definition, params, diagnostics)


def _pick(
    definitions: tuple[ProgramDef, ...], name: str | None, filename: str, diagnostics: Diagnostics
) -> ProgramDef | None:
    names = [definition.name for definition in definitions]
    if not names:
        diagnostics.error(
            At(1, 1), "there are modules here, and no program", "a program begins with `program NAME(...)`"
        )
        return None
    if name is None:
        if len(definitions) == 1:
            return definitions[0]
        hint = f"name one: `{filename}{SEPARATOR}{names[0]}`"
        diagnostics.error(definitions[1].at, f"there are several programs here: {listing(names)}", hint)
        return None
    if name in names:
        return definitions[names.index(name)]
    diagnostics.error(
        At(1, 1), f"there is no program `{name}` here: there is {listing(names)}", did_you_mean(name, names)
    )
    return None
