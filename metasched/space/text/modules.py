"""Modules in text as values: called, configured and printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from metasched.lang.module_tree import ModuleDef, print_module
from metasched.schedule.module import scope_name
from metasched.schedule.trace import Schedule
from metasched.space.rule_errors import Place
from metasched.space.text.run import ModuleFile, run_module
from metasched.space.text.values import known, plain
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing


@dataclass(frozen=True, eq=False)
class TextModule:
    """A module written as text; `str` gives its canonical text.

    Called with a schedule and a handle for each parameter, it runs in a scope of its own, and returns what the text
    returns: None, one handle or several, or a `Skip` if it does not apply. Called with keywords alone, it returns the
    module with that configuration.
    """

    definition: ModuleDef
    file: ModuleFile
    config: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return print_module(self.definition)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def __name__(self) -> str:
        return self.definition.name

    @property
    def doc(self) -> str:
        """The documentation: the strings that the module begins with."""
        return self.definition.doc

    @property
    def place(self) -> Place:
        """The place where the module is defined."""
        return Place(self.file.filename, self.definition.at.line)

    @property
    def parameters(self) -> dict[str, Any]:
        """Keyword parameters and their values."""
        return {s.name: plain(s.default) for s in self.definition.settings} | dict(self.config)

    @property
    def signature(self) -> str:
        """`tile[innermost=64](block)`."""
        return str(self).partition("\n")[0].removeprefix("module ").rstrip(":")

    def ingredients(self) -> object:
        """What its fingerprint is computed from: the canonical text, without documentation, of it and what it calls,
        and its settings."""
        texts: dict[str, str] = {}
        left = [self.definition]
        while left:
            definition = left.pop()
            if definition.name not in texts:
                texts[definition.name] = print_module(replace(definition, doc=""))
                left += [self.file.modules[call.func] for call in definition.calls() if call.func in self.file.modules]
        return self.name, texts, dict(self.config)

    def __call__(self, /, *args: Any, **settings: Any) -> Any:
        unknown = settings.keys() - self.parameters.keys()
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise TypeError(f"module {self.name} has no parameter `{min(unknown)}`; it has {known}")
        if not args:
            return replace(self, config=tuple({**dict(self.config), **settings}.items()))
        schedule, handles = args[0], args[1:]
        if not isinstance(schedule, Schedule):
            raise TypeError(f"module {self.name}: the first argument must be a Schedule, got {schedule!r}")
        if len(handles) != len(self.definition.parameters):
            takes = listing((p.name for p in self.definition.parameters), none="no handle")
            raise TypeError(f"module {self.name} takes {takes} after the schedule, and got {len(handles)} handles")
        with schedule.scope(scope_name(self.name, schedule, handles)):
            result = self.run(schedule, *handles, **settings)
        return tuple(result) if isinstance(result, list) else result

    def run(self, schedule: Schedule, /, *handles: Any, **settings: Any) -> Any:
        """Run the module as a call does, but in the caller's scope; several results are a list."""
        return known(run_module(self.file, self.definition, schedule, handles, self.parameters | settings))
