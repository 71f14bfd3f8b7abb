"""Traces as JSON, for other tools: the same data as the text, nothing more.

    {"metasched_trace": 1, "program": "dense", "params": {"N": 64}, "instructions": [
      {"op": "sample_tile", "args": [{"ref": "i"}], "outputs": ["t0", "t1"], "random": true,
       "address": "i", "decision": [{"hole": true}, 8]}]}

A handle is `{"ref": "i"}`, arithmetic `{"expr": ["*", {"ref": "t1"}, 2]}`, `_` in a decision `{"hole": true}`, a loop's
name in a decision a `ref` too, an infinite number `{"float": "inf"}`; everything else is itself. `kwargs`, `outputs`,
`address`, `decision` and `version` are left out where there is none (or where it is 1). A sampling line has `"random"`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from metasched.dtypes import INDEX, DType
from metasched.errors import Diagnostic, LanguageError
from metasched.ir.limits import MAX_LEVELS
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Select, Unary, UnOp, Var
from metasched.lang.decisions import from_json, to_json
from metasched.lang.instructions import Decision, Instruction, Ref, TraceData, Value
from metasched.support.integers import is_integer
from metasched.support.messages import a_or_an, did_you_mean, listing, with_hint

FORMAT = 1
_HEAD = "metasched_trace"
_KEYS = frozenset({_HEAD, "program", "params", "instructions"})
_LINE_KEYS = frozenset({"op", "version", "args", "kwargs", "outputs", "random", "address", "decision"})
# What to do about an object that has not the form at all.
_WRITTEN_BY = "`trace.as_json()` writes one, and `metasched.lang.trace_json` says what is in it"
_CONSTANTS = {bool: DType.BOOL, int: INDEX, float: DType.F32}


def trace_to_json(trace: TraceData, *, indent: int | None = 2) -> str:
    """A trace as a JSON object, an instruction a line; with `indent` None all on one line.

    Raises:
        TypeError: when an argument has no JSON form.
    """
    head = {_HEAD: FORMAT, "program": trace.program, "params": dict(trace.params)}
    lines = [json.dumps(_instruction(i), allow_nan=False) for i in trace.instructions]
    if indent is None:
        return json.dumps(head, allow_nan=False)[:-1] + ', "instructions": [' + ", ".join(lines) + "]}"
    space = " " * indent
    top = [f"{space}{json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join(space * 2 + line for line in lines)
    inside = f"[\n{body}\n{space}]" if lines else "[]"
    return "\n".join(["{", *top, f'{space}"instructions": {inside}', "}"]) + "\n"


def _instruction(i: Instruction) -> dict[str, Any]:
    out: dict[str, Any] = {"op": i.op}
    if i.version != 1:
        out["version"] = i.version
    out["args"] = [_value(arg) for arg in i.args]
    if i.kwargs:
        out["kwargs"] = {name: _value(value) for name, value in i.kwargs}
    if i.outputs:
        out["outputs"] = list(i.outputs)
    if i.random:
        out["random"] = True
    if i.address is not None:
        out["address"] = i.address
    if i.decision is not None:
        out["decision"] = to_json(i.decision)
    return out


def _value(value: Value) -> Any:
    match value:
        case Expr():
            return {"expr": _expr(value)}
        case tuple():
            return [_value(item) for item in value]
        case None:
            return None
    return to_json(value)


def _expr(e: Expr) -> Any:
    match e:
        case Const(value=value, type=dtype) if dtype is _CONSTANTS[type(value)]:
            return _value(value)
        case Var(name=name):
            return {"ref": name}
        case Binary(op=op, a=a, b=b):
            return [op.value, _expr(a), _expr(b)]
        case Unary(op=op, a=a):
            return [op.value, _expr(a)]
        case Select(cond=cond, then=then, otherwise=otherwise):
            return ["if", _expr(cond), _expr(then), _expr(otherwise)]
    raise TypeError(f"a trace cannot hold {a_or_an(type(e).__name__)}; its arithmetic is on integer variables")


# --- reading ---------------------------------------------------------------------------------------------


def trace_from_json(text: str, filename: str = "<json>") -> TraceData:
    """A trace from its JSON.

    Raises:
        LanguageError: where it is nested too deeply; with the position where it is no JSON; else with every mistake
            found, each with the number of its instruction.
    """
    try:
        raw = json.loads(text)
    except RecursionError:
        raise _too_deep(text, filename) from None
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        place = Diagnostic(line, column, f"this is no JSON: {error}", "`ms.parse_trace` reads traces that are text")
        raise LanguageError((place,), text, filename) from None
    if _levels_exceed(raw, MAX_LEVELS):
        raise _too_deep(text, filename)
    reader = _Reader()
    data = reader.trace(raw)
    if reader.mistakes or data is None:
        raise TraceJsonError(tuple(reader.mistakes), "", filename)
    return data


def _too_deep(text: str, filename: str) -> LanguageError:
    message = f"this is nested more than {MAX_LEVELS} levels deep"
    place = Diagnostic(1, 1, message, "a trace is an object with a list of instructions")
    return LanguageError((place,), text, filename)


def _levels_exceed(raw: Any, most: int) -> bool:
    """Whether lists and objects are nested deeper than `most` levels: reading them is recursive."""
    stack = [(raw, 0)]
    while stack:
        value, level = stack.pop()
        if level > most:
            return True
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        stack.extend((item, level + 1) for item in inside)
    return False


class TraceJsonError(LanguageError):
    """JSON that is not a trace. Each mistake names the instruction by its number; there are no positions."""

    def render(self) -> str:
        return "\n".join(with_hint(f"{self.filename}: {d.message}", d.hint) for d in self.diagnostics)


class _FormError(Exception):
    """A part of the JSON that has the wrong form; it says what is wrong, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        self.hint = hint
        super().__init__(message)


class _Reader:
    def __init__(self) -> None:
        self.mistakes: list[Diagnostic] = []

    def trace(self, raw: Any) -> TraceData | None:
        if not isinstance(raw, dict) or _HEAD not in raw:
            self._say(f'a trace is an object with the key "{_HEAD}"', _WRITTEN_BY)
            return None
        if raw[_HEAD] != FORMAT:
            self._say(
                f"this is a trace of format {raw[_HEAD]!r}, and format {FORMAT} is what can be read here",
                "have the version that wrote it print it as text, `str(trace)`",
            )
            return None
        self._say_unknown("the trace", raw, _KEYS)
        program = self._part("program", lambda: _text(raw.get("program")), "")
        params = self._part("params", lambda: _settings(raw.get("params", {})), ())
        lines = raw.get("instructions")
        if not isinstance(lines, list):
            self._say('"instructions" is a list of objects', _WRITTEN_BY)
            return None
        instructions = [self._instruction(f"instruction {n}", line) for n, line in enumerate(lines, start=1)]
        return TraceData(program, params, tuple(i for i in instructions if i is not None), FORMAT)

    def _instruction(self, where: str, raw: Any) -> Instruction | None:
        if not isinstance(raw, dict):
            self._say(f"{where}: {raw!r} is no object", _WRITTEN_BY)
            return None
        where = f"{where} ({raw.get('op')})" if isinstance(raw.get("op"), str) else where
        self._say_unknown(where, raw, _LINE_KEYS)

        def part(key: str, read: Callable[[Any], Any], default: Any) -> Any:
            return self._part(f"{where}: {key}", lambda: read(raw[key]), default) if key in raw else default

        if "op" not in raw:
            self._say(f"{where}: the key `op` is missing", 'it is the name of a primitive, such as "split"')
            return None
        random = part("random", _truth, False)
        for key in ("address", "decision"):
            if key in raw and not random:
                self._say(f"{where}: `{key}` belongs to a random variable", 'say "random": true, or leave it out')
        return Instruction(
            part("op", _name, ""),
            part("args", _values, ()),
            part("kwargs", _keywords, ()),
            part("outputs", _names, ()),
            random,
            part("address", _text, None),
            part("decision", _decision, None),
            part("version", _count, 1),
        )

    def _part(self, where: str, read: Callable[[], Any], default: Any) -> Any:
        try:
            return read()
        except _FormError as error:
            self._say(f"{where}: {error}", error.hint)
            return default

    def _say_unknown(self, where: str, raw: Mapping[str, Any], known: frozenset[str]) -> None:
        for key in sorted(raw.keys() - known):
            near = did_you_mean(key, known)
            self._say(f"{where}: there is no key `{key}`", near or f"keys are {listing(sorted(known))}")

    def _say(self, message: str, hint: str) -> None:
        self.mistakes.append(Diagnostic(0, 0, message, hint))


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise _FormError(f"{raw!r} is no text", "write it in quotes")
    return raw


def _name(raw: Any) -> str:
    if not _text(raw).isidentifier():
        raise _FormError(f"{raw!r} is no name", "a name is letters, digits and underscores, and no digit comes first")
    return str(raw)


def _names(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list):
        raise _FormError(f"{raw!r} is no list of names", 'write one such as ["x", "y"]')
    return tuple(_name(item) for item in raw)


def _truth(raw: Any) -> bool:
    if not isinstance(raw, bool):
        raise _FormError(f"{raw!r} is neither true nor false", "write true, or leave the key out")
    return raw


def _count(raw: Any) -> int:
    if not is_integer(raw) or raw < 1:
        raise _FormError(f"{raw!r} is no number of a version", "write an integer from 1 on, or leave the key out for 1")
    return raw


def _settings(raw: Any) -> tuple[tuple[str, int | str], ...]:
    if not isinstance(raw, dict):
        raise _FormError(f"{raw!r} is no object of parameters", 'write one such as {"N": 64}')
    for name, value in raw.items():
        _name(name)
        if not is_integer(value) and not isinstance(value, str):
            raise _FormError(
                f"the parameter `{name}` is {value!r}, neither an integer nor a text",
                f'write {{"{name}": 64}}, or the name of a type in quotes',
            )
    return tuple(raw.items())


def _keywords(raw: Any) -> tuple[tuple[str, Value], ...]:
    if not isinstance(raw, dict):
        raise _FormError(f"{raw!r} is no object of arguments", 'write one such as {"lanes": 16}')
    return tuple((_name(name), _read_argument(value)) for name, value in raw.items())


def _values(raw: Any) -> tuple[Value, ...]:
    if not isinstance(raw, list):
        raise _FormError(f"{raw!r} is no list of arguments", 'write one such as [{"ref": "i"}, 8]')
    return tuple(_read_argument(item) for item in raw)


def _read_argument(raw: Any) -> Value:
    """An argument."""
    match raw:
        case None:
            return None
        case list():
            return tuple(_read_argument(item) for item in raw)
        case {"expr": e} if len(raw) == 1:
            return _read_expr(e)
        case {"ref": name} if len(raw) == 1:
            return Ref(_name(name))
    try:
        return from_json(raw)  # type: ignore[return-value]
    except ValueError as error:
        if isinstance(raw, float):
            raise _FormError(str(error), "write another number") from None
        raise _FormError(f"{raw!r} stands for nothing", "objects have one key of ref, expr, hole, float") from None


def _decision(raw: Any) -> Decision:
    if raw is None:
        raise _FormError("None is no decision", "leave the key out to leave it open")
    try:
        return from_json(raw)
    except ValueError as error:
        hint = 'write a number, a text, {"ref": "i"}, {"hole": true}, or a list of these'
        raise _FormError(str(error), hint) from None


def _read_expr(raw: Any) -> Expr:
    match raw:
        case bool() | int() | float():
            return Const(_read_argument(raw), _CONSTANTS[type(raw)])  # type: ignore[arg-type]
        case {"ref": name}:
            return Var(_name(name))
        case ["if", cond, then, otherwise]:
            return Select(_read_expr(cond), _read_expr(then), _read_expr(otherwise))
        case [str() as op, a]:
            return Unary(_operator(UnOp, op), _read_expr(a))
        case [str() as op, a, b]:
            return Binary(_operator(BinOp, op), _read_expr(a), _read_expr(b))
    raise _FormError(f"{raw!r} is no arithmetic", "it is a number, a ref, or [operator, part, ...]")


def _operator(kind: Any, op: str) -> Any:
    try:
        return kind(op)
    except ValueError:
        raise _FormError(
            f"there is no operator {op!r}", f"operators are {listing(member.value for member in kind)}"
        ) from None
