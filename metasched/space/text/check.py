"""Mistakes in modules that are found before they run: names, calls, arities, branches on random variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum

from metasched.ir.nodes import BinOp
from metasched.ir.source import (
    Apply,
    At,
    IfElse,
    Item,
    Keyword,
    Name,
    NoneLit,
    Operation,
    Read,
    SourceExpr,
    Starred,
    TextLit,
)
from metasched.ir.source_printer import print_source
from metasched.lang.diagnostics import Diagnostics
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
    Setting,
    SkipLine,
    Statement,
)
from metasched.permissions import permission_problem
from metasched.schedule.block_queries import block_queries
from metasched.schedule.kinds import INLINE, ROOT, ArgumentKind
from metasched.schedule.primitive import Declaration, Param, registry
from metasched.space.text.decisions import find_mistake
from metasched.space.text.values import CHOOSE_HINT, FUNCTIONS, not_known, plain
from metasched.space.text.varying import Varying
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted, did_you_mean, listing
from metasched.target import feature_problem

_HANDLES = {ArgumentKind.BLOCK: 'a block: `get_block("name")`', ArgumentKind.LOOP: "a loop: `i, j = get_loops(block)`"}
# What is wrong with a name, and a hint, for the kinds of names that do not depend on the program.
_NAMES = {ArgumentKind.FEATURE: feature_problem, ArgumentKind.PERMISSION: permission_problem}
# What people write who know Python or another scheduling language.
_OTHER_SPELLINGS = {
    "range": "repeat over a list of loops or blocks: `for l in get_loops(block):`",
    "skip": 'write `skip "why not"` on a line of its own, or after the colon of its condition',
    "get_child_blocks": "blocks are found by name, or as `get_consumers(block)` and `get_producers(block)`",
    "sample_perfect_tile": "write `sample_tile(loop, parts=2, perfect=True)`",
}


class _Place(Enum):
    """Where a call is."""

    ALONE = "alone"
    BOUND = "bound"
    DRAWN = "drawn"
    INSIDE = "inside"


def check_modules(modules: Mapping[str, ModuleDef], diagnostics: Diagnostics) -> None:
    """Report what is wrong with the modules of one text."""
    taken = {"primitive": registry().keys(), "query": block_queries().keys(), "function": FUNCTIONS.keys()}
    for module in modules.values():
        for kind, names in taken.items():
            if module.name in names:
                message = f"`{module.name}` is a {kind}, and a module of this name would hide it"
                diagnostics.error(module.at, message, "choose another name")
        _check_no_recursion(module, modules, diagnostics)
        _Checker(module, modules, diagnostics).check()


def _check_no_recursion(module: ModuleDef, modules: Mapping[str, ModuleDef], diagnostics: Diagnostics) -> None:
    """A module that calls itself would never end: what it tests does not change between the calls."""
    for call in module.calls():
        seen: set[str] = set()
        stack = [call.func]
        while stack:
            called = stack.pop()
            if called == module.name:
                diagnostics.error(call.at, f"`{module.name}` calls itself", "repeat with `for` over a list")
                break
            if called in modules and called not in seen:
                seen.add(called)
                stack += [c.func for c in modules[called].calls()]


@dataclass
class _Checker:
    """Walks one module in the order it runs. A name counts as defined where any path defines it."""

    module: ModuleDef
    modules: Mapping[str, ModuleDef]
    diagnostics: Diagnostics
    known: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    varying: Varying = field(default_factory=Varying)
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Calls without effect unless one of their names is used.
    idle: list[tuple[AssignedName, ...]] = field(default_factory=list)
    # Whether a size was compared with None: sizes compared after that may be known.
    wary: bool = False

    def check(self) -> None:
        self._head()
        self._body(self.module.body)
        for targets in self.idle:
            if not self.used & {t.name for t in targets} and not all(t.name.startswith("_") for t in targets):
                message = f"{listing(t.name for t in targets)} {'is' if len(targets) == 1 else 'are'} never used"
                self.diagnostics.error(targets[0].at, message, "remove the line")
        for named in self._named_values():
            if named.name not in self.used and not named.name.startswith("_"):
                hint = f"remove it, or call it `_{named.name}`"
                self.diagnostics.error(named.at, f"`{named.name}` is never used", hint)

    def _named_values(self) -> list[Setting | AssignedName]:
        return [*self.module.settings, *self.module.parameters]

    def _head(self) -> None:
        for named in self._named_values():
            if named.name in self.known:
                self.diagnostics.error(named.at, f"`{named.name}` is named twice", "choose another name")
            self.known.add(named.name)
        for setting in self.module.settings:
            try:
                plain(setting.default)
            except ValueError:
                message = f"the default of `{setting.name}` is `{print_source(setting.default)}`"
                hint = "a default is a number, a text, True, False, None, or a list of these"
                self.diagnostics.error(setting.default.start, message, hint)

    # --- statements

    def _body(self, body: tuple[Statement, ...]) -> None:
        for n, statement in enumerate(body):
            self._statement(statement)
            if isinstance(statement, Give | SkipLine) and n + 1 < len(body):
                word = "return" if isinstance(statement, Give) else "skip"
                message = f"this line is never reached: `{word}` ends the module before"
                hint = f"indent the `{word}` under its condition, or remove the line"
                self.diagnostics.error(body[n + 1].at, message, hint)
                return

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Bind(targets=targets, value=value):
                self._bind(targets, value)
            case Draw():
                self._draw(statement)
            case Run(call=call):
                self._call(call, _Place.ALONE)
            case Give(values=values):
                for value in values:
                    self._expr(value)
            case SkipLine(reason=reason):
                self._expr(reason)
            case Branch():
                self._branch(statement)
            case LoopStatement():
                self._loop(statement)

    def _branch(self, branch: Branch) -> None:
        before, after = self.varying.marks, []
        for alternative in branch.alternatives:
            self._test(alternative.test)
            self._body(alternative.body)
            after.append(self.varying.marks)
            self.varying.marks = before
        self._body(branch.otherwise)
        self.varying.join([*after, self.varying.marks])

    def _loop(self, loop: LoopStatement) -> None:
        self._expr(loop.over)
        if self.varying.is_number(loop.over):
            message = f"`{print_source(loop.over)}` is a random variable, and no list"
            self.diagnostics.error(loop.over.start, message, "repeat over a list: `get_loops(block)`")
        before = self.varying.marks
        self._define(loop.targets)
        self.varying.repeat(loop.targets, loop.over)
        self._body(loop.body)
        self.varying.join([before, self.varying.marks])

    def _bind(self, targets: tuple[AssignedName, ...], value: SourceExpr) -> None:
        if isinstance(value, Apply):
            self._call(value, _Place.BOUND, targets)
        else:
            self._expr(value)
        if not isinstance(value, Apply) or self._only_looks(value):
            self.idle.append(targets)
        self._define(targets)
        self.varying.bind(targets, value)

    def _only_looks(self, call: Apply) -> bool:
        declaration = registry().get(call.func) or block_queries().get(call.func)
        return call.func in FUNCTIONS or (declaration is not None and declaration.pure)

    def _draw(self, draw: Draw) -> None:
        self._call(draw.call, _Place.DRAWN, draw.targets)
        self._define(draw.targets)
        self.varying.draw(draw)
        self.idle.append(draw.targets)
        for name in _names(draw.decision):
            self._use(name, draw.at)
        wrong = find_mistake(draw)
        if wrong is not None:
            self.diagnostics.error(draw.call.at, wrong, "change it, or leave it out")
        declaration = registry().get(draw.call.func)
        if declaration is not None and declaration.named:
            self._choice(draw)

    def _choice(self, draw: Draw) -> None:
        if not draw.call.args:
            self.diagnostics.error(draw.call.at, "this choice has no options", 'write them: `choose("none", "outer")`')
            return
        texts = [arg.value for arg in draw.call.args if isinstance(arg, TextLit)]
        if len(texts) == len(draw.call.args):
            self.options[draw.targets[0].name] = tuple(texts)
            if isinstance(draw.decision, str) and draw.decision not in texts:
                self._no_option(draw.call.at, draw.decision, texts)

    def _define(self, targets: tuple[AssignedName, ...]) -> None:
        for target in targets:
            self.known.add(target.name)
            self.options.pop(target.name, None)

    # --- calls

    def _call(self, call: Apply, place: _Place, targets: tuple[AssignedName, ...] = ()) -> None:
        self._arguments(call)
        if call.func in self.modules:
            self._module(call, self.modules[call.func], place, targets)
        elif call.func in FUNCTIONS:
            self._count(call, FUNCTIONS[call.func].arity, FUNCTIONS[call.func].doc)
        elif call.func in block_queries():
            self._check_declared(call, block_queries()[call.func])
        elif call.func in registry():
            self._check_declared(call, registry()[call.func])
            self._results(call, registry()[call.func], place, targets)
            return
        else:
            self._unknown(call)
            return
        if place is _Place.DRAWN:
            self.diagnostics.error(call.at, f"`{call.func}` is no random variable", "write `=` instead of `~`")
        if place is _Place.ALONE and call.func not in self.modules:
            self.diagnostics.error(call.at, f"nothing is done with what `{call.func}` says", "use it in a condition")

    def _unknown(self, call: Apply) -> None:
        names = [*self.modules, *registry(), *block_queries(), *FUNCTIONS]
        near = _OTHER_SPELLINGS.get(call.func) or did_you_mean(call.func, names)
        hint = near or "primitives, queries and modules of this file are called by name"
        self.diagnostics.error(call.at, f"there is no primitive, query or module `{call.func}`", hint)

    def _arguments(self, call: Apply) -> None:
        seen: set[str] = set()
        for arg in call.args:
            match arg:
                case Keyword(name=name, value=value):
                    if name in seen:
                        self.diagnostics.error(arg.at, f"`{name}` is given twice", "remove one")
                    seen.add(name)
                    self._expr(value)
                case Starred(value=value):
                    self._expr(value)
                case _:
                    self._expr(arg)
            if seen and not isinstance(arg, Keyword):
                self.diagnostics.error(
                    arg.start, "an argument without a name comes after one with a name", "put it first"
                )

    def _count(self, call: Apply, arity: int, hint: str) -> None:
        named = next((arg for arg in call.args if isinstance(arg, Keyword)), None)
        if named is not None:
            self.diagnostics.error(named.at, f"`{call.func}` has no parameter `{named.name}`", hint)
        elif len(call.args) != arity and not _is_starred(call):
            takes = counted(arity, "argument")
            self.diagnostics.error(call.at, f"`{call.func}` takes {takes}, not {len(call.args)}", hint)

    def _module(self, call: Apply, module: ModuleDef, place: _Place, targets: tuple[AssignedName, ...]) -> None:
        positional = tuple(arg for arg in call.args if not isinstance(arg, Keyword))
        defined = f"it is defined in line {module.at.line}"
        self._count(Apply(call.func, positional, at=call.at), len(module.parameters), defined)
        settings = [s.name for s in module.settings]
        for arg in call.args:
            if isinstance(arg, Keyword) and arg.name not in settings:
                hint = did_you_mean(arg.name, settings) or f"its parameters are {listing(settings)}"
                self.diagnostics.error(arg.at, f"module `{module.name}` has no parameter `{arg.name}`", hint)
        counts = {len(node.values) for node in module.walk() if isinstance(node, Give)} or {0}
        if place in (_Place.BOUND, _Place.INSIDE) and counts == {0}:
            self.diagnostics.error(call.at, f"module `{module.name}` returns nothing", "end it with `return ...`")
        elif len(counts) == 1 and min(counts) > 1:
            self._fits(targets, min(counts), f"module `{module.name}` returns")

    def _check_declared(self, call: Apply, declaration: Declaration) -> None:
        positional = [arg for arg in call.args if not isinstance(arg, Keyword)]
        named = {arg.name: arg for arg in call.args if isinstance(arg, Keyword)}
        params = {param.name: param for param in declaration.params}
        for name, arg in named.items():
            if name not in params or params[name].variadic:
                hint = did_you_mean(name, params) or declaration.signature
                self.diagnostics.error(arg.at, f"`{declaration.name}` has no parameter `{name}`", hint)
            else:
                self._fits_kind(declaration, params[name], arg.value)
        if _is_starred(call):
            return
        rest = list(positional)
        for param in declaration.params:
            if param.variadic:
                rest.clear()
            elif param.name in named:
                continue
            elif rest:
                self._fits_kind(declaration, param, rest.pop(0))
            elif param.required and named.keys() <= params.keys():
                message = f"`{declaration.name}` misses its argument `{param.name}`"
                self.diagnostics.error(call.at, message, declaration.signature)
        if rest:
            message = f"`{declaration.name}` takes no argument `{print_source(rest[0])}`"
            self.diagnostics.error(rest[0].start, message, declaration.signature)

    def _fits_kind(self, declaration: Declaration, param: Param, value: SourceExpr) -> None:
        try:
            written = plain(value)
        except ValueError:
            return
        if param.kind in _HANDLES and not param.many:
            given = print_source(value)
            message = f"argument `{param.name}` of `{declaration.name}` is {param.kind.value}, not {given}"
            hint = f"give {_HANDLES[param.kind]}"
            self.diagnostics.error(value.start, message, hint)
        elif param.many and not isinstance(written, list):
            message = f"argument `{param.name}` of `{declaration.name}` is a list, not {print_source(value)}"
            self.diagnostics.error(value.start, message, f"write `[{print_source(value)}]`")
        elif param.kind in _NAMES and isinstance(written, str):
            problem = _NAMES[param.kind](written)
            if problem is not None:
                self.diagnostics.error(value.start, *problem)

    def _results(self, call: Apply, declaration: Declaration, place: _Place, targets: tuple[AssignedName, ...]) -> None:
        op = declaration.name
        if declaration.random and place is not _Place.DRAWN:
            hint = "write `~` instead of `=`" if place is _Place.BOUND else f"give it a line: `x ~ {op}(...)`"
            self.diagnostics.error(call.at, f"`{op}` draws a random variable", hint)
        elif not declaration.random and place is _Place.DRAWN:
            self.diagnostics.error(call.at, f"`{op}` is no random variable", "write `=` instead of `~`")
        elif declaration.random:
            return
        elif declaration.result is ArgumentKind.NONE and place in (_Place.BOUND, _Place.INSIDE):
            self.diagnostics.error(call.at, f"`{op}` gives no result", f"write `{op}(...)` on a line of its own")
        elif declaration.result is not ArgumentKind.NONE and not declaration.many_results:
            self._fits(targets, 1, f"`{op}` gives")
        elif place is _Place.ALONE and declaration.pure:
            self.diagnostics.error(call.at, f"nothing is done with what `{op}` gives", "name it, or remove the line")

    def _fits(self, targets: tuple[AssignedName, ...], count: int, what: str) -> None:
        """Whether so many values can be unpacked into these targets: a single name takes any number."""
        starred = any(t.starred for t in targets)
        if len(targets) + starred < 2:
            return
        if count > 1 and (len(targets) - 1 <= count if starred else len(targets) == count):
            return
        results = counted(count, "result")
        left = ", ".join("*" * t.starred + t.name for t in targets)
        self.diagnostics.error(targets[0].at, f"{what} {results}, and on the left is `{left}`")

    # --- expressions

    def _expr(self, e: SourceExpr) -> None:
        match e:
            case Name(name=name):
                self._use(name, e.at)
            case Apply():
                self._call(e, _Place.INSIDE)
            case Read(buffer=listed, indices=indices):
                self._use(listed, e.at)
                self._indices(indices)
            case Item(call=call, indices=indices):
                self._call(call, _Place.INSIDE)
                self._indices(indices)
            case IfElse(then=then, cond=cond, otherwise=otherwise):
                self._expr(then)
                self._test(cond)
                self._expr(otherwise)
            case Operation(op=BinOp.EQ | BinOp.NE, a=Name(name=name), b=TextLit(value=text)) if name in self.options:
                self._use(name, e.start)
                if text not in self.options[name]:
                    self._no_option(e.start, text, self.options[name])
            case _:
                for child in e.children():
                    if isinstance(child, SourceExpr):
                        self._expr(child)
                if isinstance(e, Operation) and e.op.is_comparison:
                    self._check_comparison(e)

    def _indices(self, indices: tuple[SourceExpr, ...]) -> None:
        for index in indices:
            self._require_plain(index, "an index")
            self._expr(index)

    def _check_comparison(self, e: Operation) -> None:
        """A size that depends on tile sizes may be compared with None only, until it was."""
        equality = e.op in (BinOp.EQ, BinOp.NE)
        for side, other in ((e.a, e.b), (e.b, e.a)):
            if not self.varying.is_size(side):
                continue
            if equality and isinstance(other, NoneLit):
                self.wary = True
            elif not self.wary:
                self.diagnostics.error(side.start, *not_known(print_source(side)))

    def _no_option(self, at: At, text: str, options: Iterable[str]) -> None:
        known = list(options)
        hint = did_you_mean(text, known) or f"the options are {listing(known)}"
        self.diagnostics.error(at, f'"{text}" is no option of this choice', hint)

    def _test(self, e: SourceExpr) -> None:
        self._expr(e)
        self._require_plain(e, "a condition")

    def _require_plain(self, e: SourceExpr, what: str) -> None:
        for node in e.walk():
            if isinstance(node, Name) and node.name in self.varying.random:
                message = f"{what} cannot depend on `{node.name}`: a random variable's value differs between candidates"
                self.diagnostics.error(node.at, message, CHOOSE_HINT)

    def _use(self, name: str, at: At) -> None:
        self.used.add(name)
        if name in self.known or name in (ROOT, INLINE):
            return
        if name == "_":
            self.diagnostics.error(at, "`_` stands only in decisions", "write `None` for what follows from the others")
            return
        hint = did_you_mean(name, self.known) or "texts are written in quotes"
        self.diagnostics.error(at, f"`{name}` is not defined", hint)


def _is_starred(call: Apply) -> bool:
    return any(isinstance(arg, Starred) for arg in call.args)


def _names(decision: Decision | None) -> list[str]:
    if isinstance(decision, tuple):
        return [name for part in decision for name in _names(part)]
    return [decision.name] if isinstance(decision, Ref) else []
