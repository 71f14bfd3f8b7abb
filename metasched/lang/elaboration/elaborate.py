"""From a definition and its parameters to IR: names, sizes, shapes, types and bounds.

All mistakes are collected. Whatever depends on a wrong definition is skipped, so that a mistake is reported once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from keyword import iskeyword
from numbers import Integral

from metasched.dtypes import INDEX, DType, hint_for_type, holds_range
from metasched.functions.registry import functions
from metasched.ir.limits import MAX_RANK, SPLIT, too_large
from metasched.ir.nodes import Buffer, Const, Func, Scalar, Stmt, seq
from metasched.ir.program import Program
from metasched.ir.source import (
    Apply,
    Argument,
    At,
    BufferDeclaration,
    ElementType,
    Let,
    Name,
    ProgramDef,
    ProgramParameter,
    Read,
    Reduce,
    Setting,
    SourceExpr,
    Stage,
)
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.elaboration.sizes import Sizes
from metasched.lang.elaboration.stages import StageBuilder, nest
from metasched.lang.elaboration.values import BufferInfo, ProgramScope
from metasched.support.messages import did_you_mean, listing

_KEYWORDS = frozenset({"program", "trace", "module", "let", "const", "inf", "of", "root", "inline", "_"})
_DTYPES = {dtype.value: dtype for dtype in DType}
_BUILTIN = frozenset(_DTYPES) | {"sum", "prod", "max", "min", "argmax", "argmin"}
_MAX_BYTES = 2**48  # the address space of machines


def elaborate(definition: ProgramDef, params: Mapping[str, object], diagnostics: Diagnostics) -> Program:
    """The program of `definition` with `params` set, and defaults for the other parameters.

    Raises:
        LanguageError: with every mistake found, those that `diagnostics` held before included.
    """
    elaborator = _Elaborator(definition, params, diagnostics)
    func = elaborator.run()
    diagnostics.check()
    assert func is not None
    return Program(definition, elaborator.settings, func)


class _Elaborator:
    def __init__(self, definition: ProgramDef, params: Mapping[str, object], diagnostics: Diagnostics) -> None:
        self._definition = definition
        self._diagnostics = diagnostics
        self._sizes = Sizes(diagnostics)
        self.settings = self._check_settings(params)
        self._types: dict[str, DType] = {}
        self._buffers: dict[str, BufferInfo] = {}
        self._declared: dict[str, BufferInfo] = {}
        self._limits: dict[str, int] = {}

    def run(self) -> Func | None:
        self._check_expressions()
        self._check_names()
        self._define_sizes()
        self._declare()
        self._check_targets()
        nests = self._stages()
        self._check_used()
        return self._func(nests) if self._diagnostics.ok else None

    def _check_expressions(self) -> None:
        """Report expressions that are too deep or too large: later passes are recursive."""
        written: list[Stage | Let] = [*self._definition.stages, *self._definition.lets]
        wrong = [(item, message) for item in written if (message := too_large(item.value)) is not None]
        for item, message in wrong:
            self._diagnostics.error(item.at, message, SPLIT)
        ranks = [(stage, _axes(stage)) for stage in self._definition.stages]
        for stage, axes in ranks:
            if axes > MAX_RANK:
                message = f"`{stage.buffer}` runs over {axes} variables; at most {MAX_RANK} are allowed"
                self._diagnostics.error(stage.at, message, "put dimensions together")
        if wrong or any(axes > MAX_RANK for _, axes in ranks):
            self._diagnostics.check()

    # --- parameters and sizes --------------------------------------------------------------------------

    def _check_settings(self, params: Mapping[str, object]) -> tuple[tuple[str, Setting], ...]:
        definition = self._definition
        known = [param.name for param in definition.params]
        types = {param.name for param in definition.params if param.is_type}
        for name, value in params.items():
            if name not in known:
                hint = did_you_mean(name, known)
                has = f"its parameters are {listing(known)}" if known else "it has none"
                message = f"`{definition.name}` has no parameter `{name}`: {has}"
                self._diagnostics.error(definition.at, message, hint)
            elif name in types:
                if str(value) not in _DTYPES:
                    message = f"the parameter `{name}` is an element type, not {value!r}"
                    self._diagnostics.error(definition.at, message, hint_for_type(str(value)))
            elif isinstance(value, bool) or not isinstance(value, Integral):
                message = f"the parameter `{name}` is a whole number, not {value!r}"
                self._diagnostics.error(definition.at, message)
        out: dict[str, Setting] = {}
        for param in definition.params:
            value = params.get(param.name, param.default)
            if param.is_type:
                # A default may be the type that an earlier parameter is set to.
                out[param.name] = out.get(str(value), str(value))
            else:
                out[param.name] = int(value) if isinstance(value, Integral) else param.default
        return tuple(out.items())

    def _define_sizes(self) -> None:
        for param, (name, value) in zip(self._definition.params, self.settings, strict=False):
            if isinstance(value, str):
                self._types[name] = _DTYPES.get(value, DType.F32)
            elif holds_range(INDEX, value, value):
                self._sizes.define(name, value)
            else:
                self._diagnostics.error(param.at, f"the parameter `{name}` is {value}, which does not fit in 64 bits")
                self._sizes.define(name, None)
        for let in self._definition.lets:
            self._sizes.define(let.name, self._sizes.size(let.value))

    # --- names -----------------------------------------------------------------------------------------

    def _check_names(self) -> None:
        definition = self._definition
        seen: dict[str, At] = {}
        named: list[ProgramParameter | Argument | BufferDeclaration | Let] = [*definition.params, *definition.arguments]
        named += [*definition.outputs, *definition.lets, *definition.buffers]
        for item in named:
            self._check_word(item.name, item.at)
            if isinstance(item, ProgramParameter) and item.is_type and item.name in functions():
                message = f"`{item.name}` is a function, and as an element type it would be a cast"
                self._diagnostics.error(item.at, message, "choose another name")
            self._require_new_name(seen, item.name, item.at, f"`{item.name}` is defined twice")
        blocks: dict[str, At] = {}
        for stage in definition.stages:
            for target in stage.targets:
                self._check_word(target, stage.at)
            if stage.label is not None and _is_word(stage.label):
                self._diagnostics.error(stage.at, f"`{stage.label}` is a word of the language", "choose another label")
            self._require_new_name(blocks, stage.block, stage.at, f"two stages are named `{stage.block}`")
        if not definition.stages:
            self._diagnostics.error(definition.at, f"`{definition.name}` has no stages", "write `C[i] = ...`")

    def _check_word(self, name: str, at: At) -> None:
        if _is_word(name) or name in _BUILTIN:
            self._diagnostics.error(at, f"`{name}` is a word of the language", "choose another name")

    def _require_new_name(self, seen: dict[str, At], name: str, at: At, message: str) -> None:
        if name in seen:
            self._diagnostics.error(at, f"{message}: first on line {seen[name].line}", "choose another name")
        seen.setdefault(name, at)

    # --- buffers ---------------------------------------------------------------------------------------

    def _declare(self) -> None:
        definition = self._definition
        for argument in definition.arguments:
            if argument.shape is None and self._element(argument.dtype).is_storage:
                message = f"the scalar `{argument.name}` is {self._element(argument.dtype)}, which is a type of storage"
                self._diagnostics.error(
                    argument.at, message, f"write `{argument.name}: {self._element(argument.dtype).compute}`"
                )
            if argument.shape is not None:
                info = self._info(argument.name, argument.dtype, argument.shape, argument.at)
                self._buffers[argument.name] = replace(info, is_input=True)
        for declaration in (*definition.outputs, *definition.buffers):
            info = self._info(declaration.name, declaration.dtype, declaration.shape, declaration.at)
            self._declared[declaration.name] = info

    def _element(self, written: ElementType) -> DType:
        return written if isinstance(written, DType) else self._types[written]

    def _info(self, name: str, written: ElementType, shape: tuple[SourceExpr, ...], at: At) -> BufferInfo:
        dtype = self._element(written)
        extents = [self._extent(name, e) for e in shape]
        good = tuple(n for n in extents if n is not None)
        if len(good) == len(shape) and math.prod(good) * dtype.bytes > _MAX_BYTES:
            self._diagnostics.error(at, f"`{name}` has more elements than memory can hold")
            return BufferInfo(name, dtype, None, at)
        return BufferInfo(name, dtype, good if len(good) == len(shape) else None, at)

    def _extent(self, name: str, e: SourceExpr) -> int | None:
        value = self._sizes.size(e)
        if value is not None and value < 1:
            self._diagnostics.error(e.start, f"an extent of `{name}` is {value}", "extents are at least 1")
            return None
        return value

    # --- stages ----------------------------------------------------------------------------------------

    def _check_targets(self) -> None:
        definition = self._definition
        fixed = {p.name: "a parameter" for p in definition.params}
        fixed |= {let.name: "a size" for let in definition.lets}
        fixed |= {a.name: "an input" for a in definition.arguments}
        defined: dict[str, At] = {}
        for stage in definition.stages:
            for target in stage.targets:
                if target in fixed:
                    message = f"`{target}` is {fixed[target]} and cannot be computed"
                    self._diagnostics.error(stage.at, message, "give the result another name")
                self._require_new_name(defined, target, stage.at, f"`{target}` is computed twice")
        for kind, declarations in (("output", definition.outputs), ("buffer", definition.buffers)):
            for declaration in declarations:
                if declaration.name not in defined:
                    self._report_not_computed(kind, declaration, defined)

    def _report_not_computed(self, kind: str, declaration: BufferDeclaration, defined: Iterable[str]) -> None:
        outputs = {output.name for output in self._definition.outputs}
        hint = did_you_mean(declaration.name, set(defined) - outputs)
        hint = hint or f"write a stage: `{declaration.name}[...] = ...`"
        self._diagnostics.error(declaration.at, f"no stage computes the {kind} `{declaration.name}`", hint)

    def _stages(self) -> list[Stmt]:
        definition = self._definition
        scalars = {a.name: self._element(a.dtype) for a in definition.arguments if a.shape is None}
        fixed_names = self._sizes.names | {a.name for a in definition.arguments}
        fixed_names |= {name for stage in definition.stages for name in stage.targets}
        later = {name: stage.at for stage in reversed(definition.stages) for name in stage.targets}
        scope = ProgramScope(self._sizes, self._types, scalars, self._buffers, later, self._limits)
        loops: set[str] = set()
        nests: list[Stmt] = []
        for stage in definition.stages:
            builder = StageBuilder(stage, scope, self._diagnostics)
            known = {**self._buffers, **self._declared}
            info, block = builder.build(known.get(stage.buffer), fixed_names)
            found = {stage.buffer: info}
            if stage.position is not None:
                found[stage.position] = builder.position(info, known.get(stage.position))
                block = None if block is None else builder.pair_positions(block, found[stage.position])
            for name, buffer in found.items():
                later.pop(name, None)
                self._buffers.setdefault(name, buffer)
            if block is not None:
                nests.append(nest(block, loops))
        return nests

    # --- unused names ----------------------------------------------------------------------------------

    def _check_used(self) -> None:
        definition = self._definition
        read, named = _mentioned_names(definition)
        outputs = {output.name for output in definition.outputs}
        for argument in definition.arguments:
            if argument.name not in read | named:
                self._diagnostics.error(argument.at, f"the input `{argument.name}` is never read", "remove it")
        for param in definition.params:
            if param.name not in named:
                self._diagnostics.error(param.at, f"the parameter `{param.name}` is never used", "remove it")
        for let in definition.lets:
            if let.name not in named:
                self._diagnostics.error(let.at, f"the size `{let.name}` is never used", "remove it")
        for stage in definition.stages:
            if (read | outputs).isdisjoint(stage.targets):
                hint = f"make it an output, `-> {stage.buffer}: ...`, or remove the stage"
                self._diagnostics.error(stage.at, f"`{stage.buffer}` is computed and never used", hint)

    # --- the result ------------------------------------------------------------------------------------

    def _func(self, nests: list[Stmt]) -> Func:
        definition = self._definition
        outputs = {output.name for output in definition.outputs}
        temps = [name for stage in definition.stages for name in stage.targets if name not in outputs]
        return Func(
            definition.name,
            tuple(self._buffer(a.name, const=a.const) for a in definition.arguments if a.shape is not None),
            tuple(Scalar(a.name, self._element(a.dtype)) for a in definition.arguments if a.shape is None),
            tuple(a.name for a in definition.arguments),
            tuple(self._buffer(output.name) for output in definition.outputs),
            tuple(self._buffer(name) for name in temps),
            seq(nests),
        )

    def _buffer(self, name: str, *, const: bool = False) -> Buffer:
        info = self._buffers[name]
        assert info.shape is not None
        assert info.dtype is not None
        limit = self._limits.get(name)
        below = None if limit is None else Const(limit)
        return Buffer(name, tuple(Const(n) for n in info.shape), info.dtype, const=const, below=below)


def _axes(stage: Stage) -> int:
    """How many variables a stage's left-hand side has, or a reduction in it."""
    return max([len(stage.axes), *(len(node.axes) for node in stage.walk() if isinstance(node, Reduce))])


def _mentioned_names(definition: ProgramDef) -> tuple[set[str], set[str]]:
    """The buffers that are read, and the other names that are written anywhere, right or wrong."""
    read: set[str] = set()
    named: set[str] = set()
    for node in definition.walk():
        match node:
            case Read(buffer=buffer):
                read.add(buffer)
            case Name(name=name):
                named.add(name)
            case Apply(func=func):
                named.add(func)
            case Argument(dtype=dtype) | BufferDeclaration(dtype=dtype):
                named.add(str(dtype))
            case ProgramParameter(default=default):
                named.add(str(default))
    return read, named


def _is_word(name: str) -> bool:
    """Whether a name is one of the language's own words, or of Python's: parameters are keyword arguments there."""
    return name in _KEYWORDS or iskeyword(name)
