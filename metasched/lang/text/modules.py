"""Text to the tree of a module. `metasched.space` resolves its names."""

from __future__ import annotations

from lark import Token, Tree

from metasched.ir.source import SourceExpr
from metasched.lang.decisions import read_decision
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.module_tree import (
    Alternative,
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
from metasched.lang.text.expressions import (
    SyntaxTree,
    ValueReader,
    at_token,
    at_tree,
    optional_child,
    subtree,
    subtrees,
    token,
)
from metasched.lang.text.layout import Start
from metasched.lang.text.syntax import parse


def read_modules(text: str, filename: str) -> tuple[tuple[ModuleDef, ...], Diagnostics]:
    """The modules of a text, and the mistakes found so far.

    Raises:
        LanguageError: with the first syntax error.
    """
    diagnostics = Diagnostics(text, filename)
    tree = parse(text, Start.FILE, filename)
    modules = [child for child in subtrees(tree) if child.data == "module"]
    return tuple(_ModuleReader(diagnostics).read(child) for child in modules), diagnostics


class _ModuleReader:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._expressions = ValueReader(diagnostics)

    def read(self, tree: SyntaxTree) -> ModuleDef:
        name = token(tree, 0)
        settings, parameters, *lines = subtrees(tree)
        doc: list[str] = []
        while lines and lines[0].data == "note":
            doc.append(self._expressions.text(token(lines.pop(0), 0)))
        if not lines:
            self._diagnostics.error(
                at_token(name), f"the module `{name}` does nothing", "write at least one step in it"
            )
        return ModuleDef(
            str(name),
            tuple(self._setting(s) for s in subtrees(settings)),
            tuple(AssignedName(str(t), at=at_token(t)) for t in parameters.children if isinstance(t, Token)),
            "\n".join(doc),
            self._body(lines),
            at=at_token(name),
        )

    def _setting(self, tree: SyntaxTree) -> Setting:
        name = token(tree, 0)
        return Setting(str(name), self._read_expression(subtree(tree, 1)), at=at_token(name))

    def _body(self, lines: list[SyntaxTree]) -> tuple[Statement, ...]:
        read = (self._statement(line) for line in lines)
        return tuple(statement for statement in read if statement is not None)

    def _statement(self, tree: SyntaxTree) -> Statement | None:
        at = at_tree(tree)
        match tree.data:
            case "bind":
                return Bind(self._targets(subtree(tree, 0)), self._read_expression(subtree(tree, 2)), at=at)
            case "draw":
                return self._draw(tree)
            case "run":
                return Run(self._expressions.call(subtree(tree, 0)), at=at)
            case "give":
                return Give(self._expressions.items(subtree(tree, 0)), at=at)
            case "skip":
                return SkipLine(self._read_expression(subtree(tree, 0)), at=at)
            case "branch":
                return self._branch(tree)
            case "loop":
                targets, over, body = subtrees(tree)
                return LoopStatement(
                    self._targets(targets), self._read_expression(over), self._body(subtrees(body)), at=at
                )
        message = "a text that stands alone describes the module, and belongs before its first line"
        self._diagnostics.error(at, message, "move it there, or make it a comment: `# ...`")
        return None

    def _draw(self, tree: SyntaxTree) -> Draw:
        targets, call, address, decision = subtrees(tree)
        return Draw(
            self._targets(targets),
            self._expressions.call(call),
            self._expressions.text(token(address, 0)) if address.children else None,
            read_decision(self._read_expression(subtree(decision, 0)), self._diagnostics)
            if decision.children
            else None,
            at=at_tree(tree),
        )

    def _branch(self, tree: SyntaxTree) -> Branch:
        test, body, rest = subtrees(tree)
        parts = [test, body, *(child for child in rest.children if isinstance(child, Tree))]
        otherwise = self._body(subtrees(parts.pop())) if len(parts) % 2 else ()
        pairs = zip(parts[::2], parts[1::2], strict=True)
        alternatives = tuple(
            Alternative(self._read_expression(t), self._body(subtrees(b)), at=at_tree(t)) for t, b in pairs
        )
        return Branch(alternatives, otherwise, at=at_tree(tree))

    def _targets(self, tree: SyntaxTree) -> tuple[AssignedName, ...]:
        targets = tuple(
            AssignedName(str(token(t, 1)), optional_child(t, 0) is not None, at=at_token(token(t, 1)))
            for t in subtrees(tree)
        )
        for starred in [t for t in targets if t.starred][1:]:
            message = "two names are starred: how the results are shared out is not clear"
            self._diagnostics.error(starred.at, message, "star one of them")
        return targets

    def _read_expression(self, tree: SyntaxTree) -> SourceExpr:
        return self._expressions.read(tree)
