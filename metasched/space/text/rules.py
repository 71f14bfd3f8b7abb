"""Modules in text, loaded: from a text, or from a file that may hold several and programs besides."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

from metasched.ir.source import At
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.load import SEPARATOR, file_and_name, read_source
from metasched.lang.module_tree import ModuleDef
from metasched.lang.text.modules import read_modules
from metasched.schedule.trace import Schedule
from metasched.schedule.values import BlockRV
from metasched.space.rule import Rule, RuleError, Skip
from metasched.space.rule_errors import Place
from metasched.space.text.check import check_modules
from metasched.space.text.modules import TextModule
from metasched.space.text.run import ModuleFile
from metasched.support.data_classes import dataclass
from metasched.support.messages import did_you_mean, listing


class _OneBlock:
    """A module of one parameter, as the function of a rule; its result is dropped."""

    def __init__(self, module: TextModule) -> None:
        self._module = module
        self.place: Place = module.place
        self.__doc__ = module.doc

    def __call__(self, schedule: Schedule, block: BlockRV, /, **settings: Any) -> Skip | None:
        result = self._module.run(schedule, block, **settings)
        return result if isinstance(result, Skip) else None


@dataclass(frozen=True, repr=False)
class TextRule(Rule):
    """A rule written as text: a module of one block, whose result it returns when called with schedule and block."""

    module: TextModule | None = None

    @classmethod
    def of(cls, module: TextModule) -> TextRule:
        return cls(
            module.name,
            _OneBlock(module),
            module.doc or f"{module.signature}, which has no description.",
            module=module,
        )

    def __call__(self, /, *args: Any, **config: Any) -> Any:
        assert self.module is not None
        if not args:
            return super().__call__(**config)
        return self.module(*args, **{**dict(self.config), **config})

    @property
    def parameters(self) -> dict[str, Any]:
        """The module's settings, whose names may be words of Python or those of the rule's own parameters."""
        assert self.module is not None
        return self.module.parameters | dict(self.config)

    def ingredients(self) -> object:
        """As of any rule, with its text in place of a function."""
        return self.name, self.config, self.blocks, self.module

    def __str__(self) -> str:
        return str(self.module)

    def __repr__(self) -> str:
        return f"<rule {self.name} ({self.place})>"


def parse_module(text: str, name: str | None = None) -> TextModule | TextRule:
    """A module from its text; where there are several, the one that no other calls, or the one of this name.

        >>> ms.parse_module("module lanes(block):\\n    loops = get_loops(block)\\n    vectorize(loops[-1], 8)\\n")
        <rule lanes (<text>:1)>

    A module of one parameter is a rule, `rules=[module]`; one without is for a whole program, `ms.tune(program,
    space=module)`. Both are called as Python modules are: `module(sch, block)`.

    Raises:
        LanguageError: with the first syntax error, or with every other mistake found.
    """
    return _module(text, "<text>", name)


def load_module(path: str | Path) -> TextModule | TextRule:
    """A module from a file: `FILE.ms`, or `FILE.ms::NAME` where it holds several. As `parse_module`.

        >>> ms.load_module("examples/row_sums.ms")
        <rule row_sums (examples/row_sums.ms:3)>

    Raises:
        LanguageError: as `parse_module`.
        OSError: when the file cannot be read.
    """
    filename, name = file_and_name(path)
    return _module(read_source(filename), filename, name)


def load_rule(path: str | Path) -> TextRule:
    """As `load_module`, for a module of one parameter. Raises RuleError for another."""
    return require_rule(load_module(path))


def require_rule(module: TextModule | TextRule) -> TextRule:
    """The rule that a module is. Raises RuleError for one with another number of parameters than one."""
    if isinstance(module, TextRule):
        return module
    parameters = module.definition.parameters
    takes = listing((p.name for p in parameters), none="no block")
    message = f"module {module.name} ({module.place}) takes {takes}, and a rule takes one block"
    hint = "" if parameters else f"it is a space by itself: space={module.name} in Python, --module in commands"
    raise RuleError(message, hint=hint)


def load_rules(path: str | Path) -> tuple[TextRule, ...]:
    """The modules of a file that take one parameter and that no other module there calls.

    Raises:
        LanguageError: as `load_module`; RuleError when there is none.
        OSError: when the file cannot be read.
    """
    modules = _check_file(read_source(path), str(path))
    rules = tuple(
        m for m in map(_make_module, _outer_modules(modules.modules), repeat(modules)) if isinstance(m, TextRule)
    )
    if not rules:
        raise RuleError(f"{path} has no rules: a rule is a module of one block, `module NAME(block):`")
    return rules


def _module(text: str, filename: str, name: str | None) -> TextModule | TextRule:
    file = _check_file(text, filename)
    diagnostics = Diagnostics(text, filename)
    picked = _pick(file.modules, name, filename, diagnostics)
    diagnostics.check()
    assert picked is not None
    return _make_module(picked, file)


def _check_file(text: str, filename: str) -> ModuleFile:
    definitions, diagnostics = read_modules(text, filename)
    modules: dict[str, ModuleDef] = {}
    for definition in definitions:
        if definition.name in modules:
            diagnostics.error(definition.at, f"there are two modules `{definition.name}`", "rename one")
        modules.setdefault(definition.name, definition)
    check_modules(modules, diagnostics)
    diagnostics.check()
    return ModuleFile(modules, text, filename)


def _make_module(definition: ModuleDef, file: ModuleFile) -> TextModule | TextRule:
    module = TextModule(definition, file)
    return TextRule.of(module) if len(definition.parameters) == 1 else module


def _outer_modules(modules: Mapping[str, ModuleDef]) -> list[ModuleDef]:
    """The modules that no other one calls."""
    called = {call.func for module in modules.values() for call in module.calls()}
    return [module for module in modules.values() if module.name not in called]


def _pick(
    modules: Mapping[str, ModuleDef], name: str | None, filename: str, diagnostics: Diagnostics
) -> ModuleDef | None:
    if not modules:
        diagnostics.error(At(1, 1), "there is no module here", "a module begins with `module NAME(block):`")
        return None
    if name is not None and name not in modules:
        message = f"there is no module `{name}` here: there is {listing(modules)}"
        diagnostics.error(At(1, 1), message, did_you_mean(name, modules))
        return None
    if name is not None:
        return modules[name]
    outer = _outer_modules(modules)
    if len(outer) > 1:
        message = f"there are several modules here: {listing(m.name for m in outer)}"
        diagnostics.error(outer[1].at, message, f"name one: `{filename}{SEPARATOR}{outer[0].name}`")
        return None
    return outer[0]
