"""Text to the tree of a program."""

from __future__ import annotations

from dataclasses import replace

from lark import Token

from metasched.dtypes import DType, spellings
from metasched.ir.source import (
    Argument,
    At,
    Axis,
    BufferDeclaration,
    ElementType,
    Let,
    ProgramDef,
    ProgramParameter,
    SourceExpr,
    Stage,
)
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.text.expressions import (
    ExpressionReader,
    SyntaxTree,
    at_token,
    at_tree,
    subtree,
    subtrees,
    token,
)
from metasched.lang.text.layout import Start
from metasched.lang.text.syntax import parse
from metasched.support.messages import did_you_mean

_DTYPES = {dtype.value: dtype for dtype in DType}
# C's `int` has 32 bits.
_ALIASES = {"int": DType.I32, **spellings()}


def read_programs(text: str, filename: str) -> tuple[tuple[ProgramDef, ...], Diagnostics]:
    """The programs of a text, and the mistakes found so far.

    Raises:
        LanguageError: with the first syntax error.
    """
    diagnostics = Diagnostics(text, filename)
    tree = parse(text, Start.FILE, filename)
    programs = [child for child in subtrees(tree) if child.data == "program"]
    return tuple(_ProgramReader(diagnostics).read(child) for child in programs), diagnostics


def read_settings(tree: SyntaxTree, expressions: ExpressionReader) -> tuple[ProgramParameter, ...]:
    """`[N=512, M=-1, T=f32]`, or nothing."""
    out = []
    for setting in subtrees(tree):
        if setting.data == "type_setting":
            out.append(ProgramParameter(str(token(setting, 0)), str(token(setting, 1)), at=at_token(token(setting, 0))))
            continue
        name, value = token(setting, 0), expressions.integer(token(setting, 2))
        negative = isinstance(setting.children[1], Token)
        out.append(ProgramParameter(str(name), -value if negative else value, at=at_token(name)))
    return tuple(out)


class _ProgramReader:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._expressions = ExpressionReader(diagnostics)
        self._types: set[str] = set()

    def read(self, tree: SyntaxTree) -> ProgramDef:
        name = token(tree, 0)
        settings, arguments, outputs, *definitions = subtrees(tree)
        params = self._params(settings)
        lets: list[Let] = []
        buffers: list[BufferDeclaration] = []
        stages: list[Stage] = []
        for definition in definitions:
            match self._definition(definition):
                case Let() as let:
                    lets.append(let)
                case BufferDeclaration() as buffer:
                    buffers.append(buffer)
                case Stage() as stage:
                    stages.append(stage)
        return ProgramDef(
            str(name),
            params,
            tuple(self._argument(a) for a in subtrees(arguments)),
            tuple(self._output(o) for o in subtrees(outputs)),
            tuple(lets),
            tuple(buffers),
            tuple(stages),
            at=at_token(name),
        )

    def _params(self, tree: SyntaxTree) -> tuple[ProgramParameter, ...]:
        """The parameters; those for element types are registered for the rest of the program."""
        params = read_settings(tree, self._expressions)
        for param, setting in zip(params, subtrees(tree), strict=True):
            if param.is_type:
                self._element_type(token(setting, 1))
                self._types.add(param.name)
        return params

    def _argument(self, tree: SyntaxTree) -> Argument:
        name = token(tree, 1)
        dtype, shape = self._type(subtree(tree, 2))
        const = bool(subtree(tree, 0).children)
        if const and shape is None:
            self._diagnostics.error(
                at_token(name), f"`const` marks tensors, and `{name}` is a scalar", "remove `const`"
            )
        return Argument(str(name), dtype, shape, const, at=at_token(name))

    def _output(self, tree: SyntaxTree) -> BufferDeclaration:
        name = token(tree, 0)
        dtype, shape = self._type(subtree(tree, 1))
        if shape is None:
            hint = f"write `{name}: {dtype}[]` for an output of no dimensions"
            self._diagnostics.error(at_token(name), f"the output `{name}` has no shape", hint)
        return BufferDeclaration(str(name), dtype, shape or (), at=at_token(name))

    def _type(self, tree: SyntaxTree) -> tuple[ElementType, tuple[SourceExpr, ...] | None]:
        items = subtrees(subtree(tree, 1))
        shape = self._expressions.items(items[0]) if items else None
        return self._element_type(token(tree, 0)), shape

    def _element_type(self, name: Token) -> ElementType:
        if name in self._types:
            return str(name)
        dtype = _DTYPES.get(name)
        if dtype is not None:
            return dtype
        alias = _ALIASES.get(name)
        hint = f"write `{alias}`" if alias else did_you_mean(name, [*_DTYPES, *self._types])
        hint = hint or "the element types are " + ", ".join(_DTYPES)
        self._diagnostics.error(at_token(name), f"`{name}` is not an element type", hint)
        return DType.F32

    def _definition(self, tree: SyntaxTree) -> Let | BufferDeclaration | Stage:
        match tree.data:
            case "let":
                name = token(tree, 0)
                return Let(str(name), self._expressions.read(subtree(tree, 1)), at=at_token(name))
            case "declaration":
                name = token(tree, 0)
                type_name, shape = self._expressions.subscript(subtree(tree, 1))
                return BufferDeclaration(str(name), self._element_type(type_name), shape, at=at_token(name))
            case "labelled":
                return self._stage(str(token(tree, 0)), subtree(tree, 1), subtree(tree, 2), at_tree(tree))
            case "stage":
                return self._stage(None, subtree(tree, 0), subtree(tree, 1), at_tree(tree))
            case "labelled_pair":
                stage = self._stage(str(token(tree, 0)), subtree(tree, 1), subtree(tree, 3), at_tree(tree))
                return self._add_position(stage, subtree(tree, 2))
            case "pair":
                return self._add_position(
                    self._stage(None, subtree(tree, 0), subtree(tree, 2), at_tree(tree)), subtree(tree, 1)
                )
        raise AssertionError(f"the grammar has no definition `{tree.data}`")

    def _add_position(self, stage: Stage, target: SyntaxTree) -> Stage:
        """A stage with its second target, whose indices are those of the first."""
        name, items = self._expressions.subscript(target)
        axes = self._expressions.axes(items)
        if [axis.name for axis in axes] != [axis.name for axis in stage.axes]:
            wanted = ", ".join(axis.name for axis in stage.axes)
            message = f"`{stage.buffer}` and `{name}` have different indices"
            self._diagnostics.error(
                at_token(name), message, f"a value and its position go together: `{name}[{wanted}]`"
            )
            axes = stage.axes
        axes = tuple(replace(a, extent=a.extent or b.extent) for a, b in zip(stage.axes, axes, strict=True))
        return replace(stage, position=str(name), axes=axes)

    def _stage(self, label: str | None, target: SyntaxTree, value: SyntaxTree, at: At) -> Stage:
        buffer, items = self._expressions.subscript(target)
        axes: tuple[Axis, ...] = self._expressions.axes(items)
        return Stage(None if label == buffer else label, str(buffer), axes, self._expressions.read(value), at=at)
