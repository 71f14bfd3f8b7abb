"""Programs without a head: stages alone, whose arguments get their shapes and element types from arrays.

    C[i, j] = sum[k](A[i, k] * B[k, j]); D[i, j] = max(C[i, j], 0)

The arguments are the names that no stage computes, in the order in which right-hand sides mention them first; what the
last stage computes is the output. A name that is indexed is a tensor, another one a scalar.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from metasched.dtypes import DType
from metasched.errors import Diagnostic, KernelError, LanguageError
from metasched.ir.program import Program
from metasched.ir.source import (
    Axis,
    Name,
    Read,
    Stage,
)
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.elaboration.elaborate import elaborate
from metasched.lang.load import parse_definitions
from metasched.lang.memory_order import apply_memory_order
from metasched.lang.shorthand_shapes import (
    FILE,
    NAME,
    ArgumentType,
    ScalarType,
    ShapeInference,
    TensorType,
    mentions,
)
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an

_HEAD = f"program {NAME}() -> _result: f32[1]:\n"
_INDENT = "    "
# Another place mentioned in a message.
_PLACE = re.compile(r"\bline (\d+)(, column (\d+))?")
T = TypeVar("T")


@dataclass(frozen=True)
class Shorthand:
    """Stages as read. `arguments` are names in calling order; `tensors` are those of them that are indexed."""

    text: str
    stages: tuple[Stage, ...]
    arguments: tuple[str, ...]
    tensors: frozenset[str]

    @property
    def subscripts(self) -> tuple[str, ...]:
        """The scalar arguments that alone index a tensor: usually indices missing from a reduction."""
        used = {
            index.name
            for stage in self.stages
            for node in mentions(stage.value)
            if isinstance(node, Read)
            for index in node.indices
            if isinstance(index, Name)
        }
        return tuple(name for name in self.arguments if name in used - self.tensors)

    def program(self, types: Mapping[str, ArgumentType]) -> Program:
        """The program for arguments of these types, one for each of `arguments`.

        The extent of an index is that of the dimension that it indexes alone. An index that never stands alone has the
        largest extent that stays in bounds: in `sum[r](X[i + r] * K[r])`, `i` has `len(X) - len(K) + 1` values. Tensors
        with another memory order are arguments in that order: of a transposed `A` the program reads `A[k, i]`.

        Raises KernelError where the types do not go together, LanguageError where the stages are wrong.
        """
        try:
            return self._program(types)
        except LanguageError as error:
            to_blame = self._typed_numbers_to_blame(types)
            if not to_blame:
                raise
            raise _add_hint(error, to_blame) from None

    def _typed_numbers_to_blame(self, types: Mapping[str, ArgumentType]) -> dict[str, DType]:
        """The numbers with a type of their own, as NumPy's have, without whose types there would be a program."""
        freed = {name: _python_type(type_) for name, type_ in types.items()}
        if not self._has_program(freed):
            return {}
        for name, type_ in types.items():
            if self._has_program({**freed, name: type_}):
                freed[name] = type_
        return {name: type_.dtype for name, type_ in types.items() if freed[name] != type_}

    def _has_program(self, types: Mapping[str, ArgumentType]) -> bool:
        try:
            self._program(types)
        except (KernelError, LanguageError):
            return False
        return True

    def _program(self, types: Mapping[str, ArgumentType]) -> Program:
        inference = ShapeInference(self.stages, self.arguments, types)
        stages = tuple(inference.stage(stage) for stage in self.stages)
        definition = inference.definition(stages)
        wrapped, origins = _wrap_stages(self.text)
        program = _restore_places(self.text, origins, lambda: elaborate(definition, {}, Diagnostics(wrapped, FILE)))
        orders = {n: t.order for n, t in types.items() if isinstance(t, TensorType) and t.order is not None}
        if not orders:
            return program
        # Mistakes were already reported in terms of the program as written.
        return elaborate(apply_memory_order(definition, orders), {}, Diagnostics(wrapped, FILE))


def _python_type(given: ArgumentType) -> ArgumentType:
    """The type of the Python number that has the value of a typed one, such as of a scalar of NumPy."""
    if isinstance(given, TensorType) or given.dtype.is_bool:
        return given
    return ScalarType(DType.F64 if given.dtype.is_float else DType.I64, fixed=False)


def _add_hint(error: LanguageError, numbers: Mapping[str, DType]) -> LanguageError:
    """The first mistake, with the hint that it is one of numbers with a type of their own."""
    owned = " and ".join(f"`{name}` is {dtype} by its own type" for name, dtype in numbers.items())
    plain = " and ".join(f"`{'float' if dtype.is_float else 'int'}({name})`" for name, dtype in numbers.items())
    hint = f"{owned}; pass {plain}: a number of Python takes the type of what it meets"
    return LanguageError((replace(error.diagnostics[0], hint=hint),), error.source, error.filename)


def read_shorthand(text: str) -> Shorthand:
    """Stages from a text, separated by newlines or `;`. Raises LanguageError, with places in that text."""
    if not isinstance(text, str):
        raise LanguageError((Diagnostic(1, 1, f"a kernel is a text, not {a_or_an(type(text).__name__)}"),), "", FILE)
    wrapped, origins = _wrap_stages(text)
    if not origins:
        raise LanguageError((Diagnostic(1, 1, "there are no stages", "write `C[i, j] = ...`"),), text, FILE)
    (definition,) = _restore_places(text, origins, lambda: parse_definitions(wrapped, FILE))
    if not definition.stages:
        raise LanguageError((Diagnostic(1, 1, "there are no stages", "write `C[i, j] = ...`"),), text, FILE)
    if definition.lets or definition.buffers:
        at = next(_origin(origins, node.at.line, node.at.column) for node in (*definition.lets, *definition.buffers))
        hint = "write a whole program, with `program NAME(...) -> ...:`, and ms.parse_program"
        raise LanguageError((Diagnostic(*at, "a kernel's text has stages only", hint),), text, FILE)
    _check_used(text, origins, definition.stages)
    computed = {buffer for stage in definition.stages for buffer in stage.targets}
    names: dict[str, None] = {}
    tensors: set[str] = set()
    for stage in definition.stages:
        axes = {axis.name for axis in stage.walk() if isinstance(axis, Axis)}  # those of misplaced reductions too
        for node in mentions(stage.value):
            if isinstance(node, Read) and node.buffer not in computed:
                names[node.buffer] = None
                tensors.add(node.buffer)
            elif isinstance(node, Name) and node.name not in axes | computed:
                names[node.name] = None
    return Shorthand(text, definition.stages, tuple(names), frozenset(tensors))


def _check_used(text: str, origins: _Origins, stages: tuple[Stage, ...]) -> None:
    """Raise LanguageError for stages before the last that nothing reads: a program could make them outputs."""
    read = {node.buffer for stage in stages for node in stage.walk() if isinstance(node, Read)}
    hint = "a kernel's result is its last stage; for several, write a program, `program NAME(...) -> (S: ..., T: ...):`"
    unused = tuple(
        Diagnostic(
            *_origin(origins, stage.at.line, stage.at.column), f"`{stage.buffer}` is computed and never used", hint
        )
        for n, stage in enumerate(stages[:-1])
        if read.union(*(later.targets for later in stages[n + 1 :])).isdisjoint(stage.targets)
    )
    if unused:
        raise LanguageError(unused, text, FILE)


# --- places in the text

_Origins = dict[int, list[tuple[int, int]]]


def _wrap_stages(text: str) -> tuple[str, _Origins]:
    """The text of a whole program with these stages, and for each of its lines where the characters come from."""
    lines: list[str] = []
    origins: _Origins = {}
    current: list[tuple[str, int, int]] = []
    depth = 0

    def finish() -> None:
        while current and current[0][0].isspace():
            del current[0]
        while current and current[-1][0].isspace():
            del current[-1]
        if current:
            lines.append(_INDENT + "".join(c for c, *_ in current))
            origins[len(lines) + 1] = [(line, column) for _, line, column in current]
        current.clear()

    for number, line in enumerate(text.split("\n"), start=1):
        for column, c in enumerate(line.partition("#")[0], start=1):
            depth += (c in "([") - (c in ")]")
            if c == ";" and depth <= 0:
                finish()
            else:
                current.append((c, number, column))
        if depth > 0:
            current.append((" ", number, len(line) + 1))  # a stage may go on in parentheses
        else:
            finish()
    finish()
    return _HEAD + "\n".join(lines) + "\n", origins


def _origin(origins: _Origins, line: int, column: int) -> tuple[int, int]:
    places = origins.get(line) or origins[min(origins)]
    n = column - 1 - len(_INDENT)
    if n >= len(places):
        return places[-1][0], places[-1][1] + 1
    return places[max(n, 0)]


def _restore_places(text: str, origins: _Origins, run: Callable[[], T]) -> T:
    """The result of `run`; the places of its LanguageErrors are mapped back to the original text."""

    def placed(place: re.Match[str]) -> str:
        line, column = _origin(origins, int(place[1]), int(place[3] or 1))
        return f"line {line}, column {column}" if place[3] or "\n" not in text.strip() else f"line {line}"

    try:
        return run()
    except LanguageError as error:
        moved = (
            Diagnostic(*_origin(origins, d.line, d.column), _PLACE.sub(placed, d.message), _PLACE.sub(placed, d.hint))
            for d in error.diagnostics
        )
        raise LanguageError(tuple(dict.fromkeys(moved)), text, FILE) from None
