"""Running modules in text: the same `Schedule` methods that a Python module calls, so the same trace.

A module's names hold blocks, loops, integer random variables, plain values (numbers, strings, booleans, None), or lists
of these. Every exception gets a note with the line of the text, and a caret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from metasched.errors import ScheduleError
from metasched.ir.nodes import BinOp, UnOp
from metasched.ir.printer import print_func
from metasched.ir.source import (
    Apply,
    At,
    IfElse,
    Item,
    Keyword,
    ListLit,
    Name,
    Operation,
    Prefix,
    Read,
    SourceExpr,
    Starred,
)
from metasched.ir.source_printer import print_source
from metasched.lang.elaboration.sizes import OPERATORS, PREFIXES
from metasched.lang.instructions import Decision, Ref
from metasched.lang.module_tree import (
    AssignedName,
    Bind,
    Branch,
    Draw,
    Give,
    LoopStatement,
    ModuleDef,
    Run,
    SkipLine,
    Statement,
)
from metasched.schedule.arguments import argument_error, bind
from metasched.schedule.block_queries import QueryContext, block_queries
from metasched.schedule.kinds import INLINE, ROOT, ArgumentKind
from metasched.schedule.module import scope_name
from metasched.schedule.primitive import Declaration, registry
from metasched.schedule.trace import Schedule
from metasched.schedule.values import BlockRV, Int, LocationRV, LoopRV
from metasched.space.rule import Skip
from metasched.space.rule_errors import RuleNote
from metasched.space.text.values import CHOOSE_HINT, FUNCTIONS, UNKNOWN, kind_of, not_known, plain
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class ModuleFile:
    """A text that holds modules, which may call one another."""

    modules: Mapping[str, ModuleDef]
    text: str
    filename: str

    def excerpt(self, at: At, what: str) -> str:
        """A line of the text, with a caret."""
        line = self.text.split("\n")[at.line - 1]
        return f"{self.filename}:{at.line}:{at.column}: {what}\n    {line}\n    {' ' * (at.column - 1)}^"


def run_module(
    file: ModuleFile, module: ModuleDef, schedule: Schedule, handles: Sequence[Any], settings: Mapping[str, Any]
) -> Any:
    """The result of a module that is run in the caller's scope: None, one value, a list of them, or a `Skip`.

    There is a handle for each parameter; settings that are left out take their defaults.
    """
    names = {p.name: handle for p, handle in zip(module.parameters, handles, strict=True)}
    names |= {s.name: plain(s.default) for s in module.settings} | dict(settings)
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in names.items()}
    return _Activation(file, module, schedule, listed).run()


@dataclass(frozen=True)
class _Returned:
    """The returned values of a module, empty if there are none."""

    values: tuple[Any, ...] = ()


_End = _Returned | Skip


@dataclass
class _Activation:
    """One call of a module."""

    file: ModuleFile
    module: ModuleDef
    schedule: Schedule
    names: dict[str, Any]
    noted: list[Exception] = field(default_factory=list)

    def run(self) -> Any:
        end = self._body(self.module.body)
        if not isinstance(end, _Returned):
            return end
        return end.values[0] if len(end.values) == 1 else list(end.values) or None

    # --- statements

    def _body(self, body: tuple[Statement, ...]) -> _End | None:
        for statement in body:
            end = self._statement(statement)
            if end is not None:
                return end
        return None

    def _statement(self, statement: Statement) -> _End | None:
        match statement:
            case Bind(targets=targets, value=value):
                with self._note_place(value.start):
                    self._assign(targets, self._results(value), value)
            case Draw(targets=targets, call=call):
                with self._note_place(call.at):
                    self._assign(targets, self._draw(statement), call)
            case Run(call=call):
                with self._note_place(call.at):
                    self._call(call)
            case Give(values=values, at=at):
                with self._note_place(at):
                    return _Returned(tuple(self._value(value) for value in values))
            case SkipLine(reason=reason):
                with self._note_place(reason.start):
                    return Skip(str(self._value(reason)))
            case Branch():
                return self._branch(statement)
            case LoopStatement():
                return self._loop(statement)
        return None

    def _branch(self, branch: Branch) -> _End | None:
        for alternative in branch.alternatives:
            with self._note_place(alternative.test.start):
                holds = self._truth(alternative.test)
            if holds:
                return self._body(alternative.body)
        return self._body(branch.otherwise)

    def _loop(self, loop: LoopStatement) -> _End | None:
        with self._note_place(loop.over.start):
            items = self._value(loop.over)
            if not isinstance(items, list):
                self._fail(
                    loop.over, f"`{print_source(loop.over)}` is no list", "repeat over a list: `get_loops(block)`"
                )
        for item in list(items):
            with self._note_place(loop.targets[0].at):
                self._assign(loop.targets, item, loop.over)
            end = self._body(loop.body)
            if end is not None:
                return end
        return None

    def _results(self, value: SourceExpr) -> Any:
        result = self._value(value)
        if isinstance(result, Skip):
            called = value.func if isinstance(value, Apply) else ""
            self._fail(
                value, f"module `{called}` gives nothing here: {result.reason}", "test before whether it applies"
            )
        return result

    def _draw(self, draw: Draw) -> Any:
        asked: dict[str, Any] = {}
        if draw.decision is not None:
            asked["decision"] = self._decision(draw.decision, draw.call)
        args, kwargs = self._arguments(draw.call)
        sample = getattr(self.schedule, draw.call.func)
        if registry()[draw.call.func].named:
            return sample(draw.address or draw.targets[0].name, args, **asked)
        if draw.address is not None:
            asked["name"] = draw.address
        return sample(*args, **kwargs, **asked)

    def _decision(self, decision: Decision, at: SourceExpr) -> Decision:
        """The value of a written decision, in which a name refers to a loop's position or to a value."""
        if isinstance(decision, tuple):
            return tuple(self._decision(part, at) for part in decision)
        if not isinstance(decision, Ref) or decision.name not in self.names:
            return decision
        value = self.names[decision.name]
        if isinstance(value, LoopRV):
            return Ref(self.schedule.name_of(value))
        if isinstance(value, str | int | float | bool):
            return value
        self._fail(at, f"`{decision.name}` is {kind_of(value)}, and no decision", "a decision is a plain value")
        return decision

    def _assign(self, targets: tuple[AssignedName, ...], value: Any, e: SourceExpr) -> None:
        if len(targets) == 1 and not targets[0].starred:
            self.names[targets[0].name] = value
            return
        if not isinstance(value, list):
            self._fail(e, f"`{print_source(e)}` gives {kind_of(value)}, and {len(targets)} names are on the left")
        star = next((n for n, target in enumerate(targets) if target.starred), None)
        if len(value) < len(targets) - (star is not None) or (star is None and len(value) > len(targets)):
            left = ", ".join("*" * t.starred + t.name for t in targets)
            hint = "give each a name, or let one with a star take the rest: `*outer, k = ...`"
            self._fail(e, f"it gives {len(value)} here, and on the left is `{left}`", hint)
        spare = len(value) - len(targets)
        for n, target in enumerate(targets):
            first = n if star is None or n <= star else n + spare
            self.names[target.name] = list(value[first : first + spare + 1]) if target.starred else value[first]

    # --- calls

    def _call(self, call: Apply) -> Any:
        args, kwargs = self._arguments(call)
        with self._note_place(call.at):
            if call.func in self.file.modules:
                return self._module(self.file.modules[call.func], args, kwargs)
            if call.func in FUNCTIONS:
                return self._function(call, args)
            if call.func in block_queries():
                return self._query(block_queries()[call.func], args, kwargs)
            return getattr(self.schedule, call.func)(*args, **kwargs)

    def _arguments(self, call: Apply) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for arg in call.args:
            match arg:
                case Keyword(name=name, value=value):
                    kwargs[name] = self._value(value)
                case Starred(value=value):
                    items = self._value(value)
                    if not isinstance(items, list):
                        self._fail(arg, f"`{print_source(value)}` is {kind_of(items)}, and no list", "remove the star")
                    args.extend(items)
                case _:
                    args.append(self._value(arg))
        return args, kwargs

    def _module(self, module: ModuleDef, args: list[Any], kwargs: dict[str, Any]) -> Any:
        before = self.schedule.func
        with self.schedule.scope(scope_name(module.name, self.schedule, tuple(args))):
            result = run_module(self.file, module, self.schedule, args, kwargs)
        if isinstance(result, Skip) and self.schedule.func is not before:
            message, hint = f"it skipped after transforming the program: {result.reason}", "decide first"
            raise ScheduleError(f"module {module.name}", message, hint=hint)
        return result

    def _query(self, declaration: Declaration, args: list[Any], kwargs: dict[str, Any]) -> Any:
        values: list[str] = []
        for param, value in bind(declaration, tuple(args), kwargs):
            for item in value if param.variadic else (value,):
                match param.kind, item:
                    case (ArgumentKind.BLOCK, BlockRV()) | (ArgumentKind.LOOP, LoopRV()):
                        values.append(self.schedule.name_of(item))
                    case (ArgumentKind.STR | ArgumentKind.FEATURE | ArgumentKind.PERMISSION, str()):
                        values.append(item)
                    case _:
                        raise argument_error(declaration, param, item)
        looked_at = QueryContext.of(self.schedule.context, lambda: self.schedule.target)
        answer = declaration.run(looked_at, *values)
        if answer is None:
            return UNKNOWN
        return list(answer) if declaration.many_results else answer

    def _function(self, call: Apply, args: list[Any]) -> Any:
        try:
            return FUNCTIONS[call.func].run(*args)
        except TypeError:
            given = ", ".join(kind_of(arg) for arg in args)
            return self._fail(call, f"`{call.func}` cannot take {given}", FUNCTIONS[call.func].doc)
        except ZeroDivisionError:
            return self._fail(call, f"`{print_source(call)}` divides by zero")

    # --- expressions

    def _value(self, e: SourceExpr) -> Any:
        match e:
            case Name(name=name):
                return self._name(e, name)
            case Apply():
                return self._call(e)
            case Read(buffer=listed, indices=indices):
                return self._item(e, listed, self._name(e, listed), indices)
            case Item(call=call, indices=indices):
                return self._item(e, print_source(call), self._call(call), indices)
            case Operation(op=op, a=a, b=b):
                return self._operation(e, op, a, b)
            case Prefix(op=UnOp.NOT, a=a):
                return not self._truth(a)
            case Prefix(op=op, a=a):
                return self._compute(e, lambda: PREFIXES[op](self._value(a)))
            case IfElse(then=then, cond=cond, otherwise=otherwise):
                return self._value(then if self._truth(cond) else otherwise)
            case ListLit(items=items):
                return [self._value(item) for item in items]
        return plain(e)

    def _name(self, e: SourceExpr, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        if name in (ROOT, INLINE):
            return name
        return self._fail(e, f"`{name}` is not defined here", "the lines that define it were not run: define it before")

    def _item(self, e: SourceExpr, listed: str, items: Any, indices: tuple[SourceExpr, ...]) -> Any:
        numbers = [self._value(index) for index in indices]
        if not isinstance(items, list):
            return self._fail(e, f"`{listed}` is {kind_of(items)}, and no list", "indices are for lists")
        if len(numbers) != 1 or not isinstance(numbers[0], int):
            return self._fail(e, f"`{print_source(e)}` has no meaning", f"write one number: `{listed}[-1]` is the last")
        if not -len(items) <= numbers[0] < len(items):
            return self._fail(e, f"`{listed}` has {len(items)} items, and {numbers[0]} is not one", "test `len` before")
        return items[numbers[0]]

    def _truth(self, e: SourceExpr) -> bool:
        value = self._value(e)
        if isinstance(value, bool):
            return value
        if isinstance(value, Int | LocationRV):
            return bool(self._fail(e, f"`{print_source(e)}` is a random variable, and no condition", CHOOSE_HINT))
        hint = "compare it: `x == None`, `len(loops) > 0`"
        return bool(self._fail(e, f"a condition is True or False, and `{print_source(e)}` is {kind_of(value)}", hint))

    def _operation(self, e: Operation, op: BinOp, a: SourceExpr, b: SourceExpr) -> Any:
        if op is BinOp.AND:
            return self._truth(a) and self._truth(b)
        if op is BinOp.OR:
            return self._truth(a) or self._truth(b)
        left, right = self._value(a), self._value(b)
        if op.is_comparison:
            self._require_comparable(e, left, right)
        if left is UNKNOWN or right is UNKNOWN:
            if op in (BinOp.EQ, BinOp.NE) and (left is None or right is None):
                return op is BinOp.EQ
            return self._fail(e, *not_known(print_source(a if left is UNKNOWN else b)))
        if op.is_comparison and op not in (BinOp.EQ, BinOp.NE) and (left is None or right is None):
            side = print_source(a if left is None else b)
            return self._fail(e, f"`{side}` is None, which has no order", f"test `{side} == None` before")
        return self._compute(e, lambda: OPERATORS[op](left, right))

    def _require_comparable(self, e: Operation, left: Any, right: Any) -> None:
        if isinstance(left, Int | LocationRV) or isinstance(right, Int | LocationRV):
            self._fail(e, f"`{print_source(e)}` compares a random variable", CHOOSE_HINT)
        handle, text = (right, left) if isinstance(left, str) else (left, right)
        if isinstance(text, str) and isinstance(handle, BlockRV | LoopRV):
            hint = "`name(block)` is its name" if isinstance(handle, BlockRV) else "loops are told apart by queries"
            self._fail(e, f"`{print_source(e)}` compares {kind_of(handle)} with a text", hint)

    def _compute(self, e: SourceExpr, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except (TypeError, ValueError):
            return self._fail(
                e, f"`{print_source(e)}` has no value", "numbers and random variables combine with + - * // %"
            )
        except ZeroDivisionError:
            return self._fail(e, f"`{print_source(e)}` divides by zero")

    # --- mistakes

    def _fail(self, e: SourceExpr, message: str, hint: str = "") -> Any:
        func = self.schedule.func
        marks = tuple(self.schedule.name_of(v) for v in self.names.values() if isinstance(v, BlockRV))
        with self._note_place(e.at):
            raise ScheduleError(
                f"module {self.module.name}", message, marks, hint, render=lambda: print_func(func, marks)
            )

    @contextmanager
    def _note_place(self, at: At) -> Iterator[None]:
        """Note on every exception of a `with` body where in the text it was raised: only the innermost place."""
        try:
            yield
        except Exception as error:
            if error not in self.noted:
                self.noted.append(error)
                error.add_note(RuleNote(self.file.excerpt(at, f"in module {self.module.name}")))
            raise
