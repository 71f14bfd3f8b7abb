"""From tensors built in Python to the tree of a program."""

from __future__ import annotations

from dataclasses import replace

from metasched.dtypes import DType
from metasched.ir.program import Program
from metasched.ir.source import (
    NOWHERE,
    Argument,
    BufferDeclaration,
    Let,
    ProgramDef,
    ProgramParameter,
    Reduce,
    SourceExpr,
    Stage,
)
from metasched.ir.source_printer import print_program
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.elaboration.elaborate import elaborate
from metasched.lang.elaboration.extents import bare_uses, stage_axes
from metasched.lang.elaboration.sizes import Sizes
from metasched.lang.elaboration.values import BufferInfo, ProgramScope, StageScope, Values
from metasched.lang.python_values import (
    FILE,
    Computed,
    Parameter,
    Positions,
    ScalarArgument,
    Size,
    Symbol,
    Tensor,
    program_error,
)
from metasched.lang.text.programs import read_programs
from metasched.support.messages import listing


def assemble(
    name: str,
    inputs: tuple[Tensor | ScalarArgument, ...],
    outputs: tuple[Tensor, ...],
    params: tuple[Parameter, ...] | None,
) -> Program:
    """The program of `outputs` and everything that they depend on.

    Its definition is printed and parsed again, so that mistakes can be shown in a text.

    Raises:
        LanguageError: with every mistake in the program.
    """
    definition = _definition(name, inputs, outputs, params)
    definitions, diagnostics = read_programs(print_program(definition), FILE)
    diagnostics.check()
    (reread,) = definitions
    assert reread == definition, "the canonical text of a program stands for the program"
    return elaborate(reread, {}, diagnostics)


def infer_dtype(stage: Stage, symbols: tuple[Symbol, ...]) -> DType | None:
    """The dtype of a stage's value; None if it consists of numbers alone."""
    diagnostics = Diagnostics("", FILE)
    scalars = {s.name: s.dtype for s in symbols if isinstance(s, ScalarArgument)}
    buffers = {s.name: BufferInfo(s.name, s.dtype, None, NOWHERE) for s in symbols if isinstance(s, Tensor)}
    spatial, reduce = stage_axes(stage)
    axes = frozenset(axis.name for axis in spatial + reduce)
    scope = StageScope(ProgramScope(Sizes(diagnostics), {}, scalars, buffers, {}), stage.buffer, axes)
    return Values(scope, diagnostics).dtype(stage.value)


def _definition(
    name: str,
    inputs: tuple[Tensor | ScalarArgument, ...],
    outputs: tuple[Tensor, ...],
    params: tuple[Parameter, ...] | None,
) -> ProgramDef:
    symbols = _reachable(inputs, outputs)
    _check_names(symbols)
    _check_ends(name, symbols, inputs, outputs)
    used = tuple(s for s in symbols if isinstance(s, Parameter))
    if params is not None and {id(p) for p in params} != {id(p) for p in used}:
        raise program_error(
            f"`params` are {listing(p.name for p in params)}, and the program uses {listing(p.name for p in used)}",
            "list each parameter once",
        )
    computed = {s.name: s for s in symbols if isinstance(s, Computed)}
    tensors = {s.name: s for s in symbols if isinstance(s, Tensor)}
    output_names = {o.name for o in outputs}
    between = [c for c in computed.values() if c.name not in output_names and not _shows_type(c, tensors)]
    positions = [s for s in symbols if isinstance(s, Positions)]
    positions = [p for p in positions if p.name not in output_names and p.dtype is not DType.I64]
    return ProgramDef(
        name,
        tuple(ProgramParameter(p.name, p.default) for p in (used if params is None else params)),
        tuple(_argument(i) for i in inputs),
        tuple(_declaration(o) for o in outputs),
        tuple(Let(s.name, s.value.node) for s in symbols if isinstance(s, Size)),
        tuple(_declaration(c) for c in (*between, *positions)),
        tuple(_drop_ranges(c.stage, tensors) for c in computed.values()),
    )


def _check_ends(
    name: str,
    symbols: tuple[Symbol, ...],
    inputs: tuple[Tensor | ScalarArgument, ...],
    outputs: tuple[Tensor, ...],
) -> None:
    """Raises LanguageError where a program reads what is no input of it, or gives out what it does not compute."""
    missing = [s.name for s in symbols if _is_input(s) and not any(s is i for i in inputs)]
    if missing:
        raise program_error(
            f"{listing(missing)} not among the inputs of `{name}`", "list every placeholder and scalar used"
        )
    given = [o.name for o in outputs if not isinstance(o, Computed | Positions)]
    if given:
        raise program_error(f"the output {listing(given)} is an input", "an output is what `compute` returns")


def _reachable(inputs: tuple[Tensor | ScalarArgument, ...], outputs: tuple[Tensor, ...]) -> tuple[Symbol, ...]:
    """Every symbol that the program needs, after its dependencies where order matters."""
    found: dict[int, Symbol] = {}
    open_: set[int] = set()

    def visit(symbol: Symbol) -> None:
        if id(symbol) in open_:
            return
        open_.add(id(symbol))
        for part in _parts(symbol):
            visit(part)
        found[id(symbol)] = symbol

    # Parameters are listed in the order of the first line, so shapes are visited before values.
    for tensor in (*outputs, *inputs):
        if isinstance(tensor, Tensor):
            for extent in tensor.shape:
                for symbol in extent.symbols:
                    visit(symbol)
    for symbol in (*outputs, *inputs):
        visit(symbol)
    return tuple(found.values())


def _parts(symbol: Symbol) -> tuple[Symbol, ...]:
    shape = tuple(s for n in symbol.shape for s in n.symbols) if isinstance(symbol, Tensor) else ()
    if isinstance(symbol, Positions):
        return (symbol.values,)
    if isinstance(symbol, Computed):
        return shape + symbol.value.symbols
    return symbol.value.symbols if isinstance(symbol, Size) else shape


def _check_names(symbols: tuple[Symbol, ...]) -> None:
    names = [symbol.name for symbol in symbols]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise program_error(f"several things are named {listing(twice)}", "give each its own name")


def _is_input(symbol: Symbol) -> bool:
    return isinstance(symbol, ScalarArgument) or (
        isinstance(symbol, Tensor) and not isinstance(symbol, Computed | Positions)
    )


def _argument(argument: Tensor | ScalarArgument) -> Argument:
    if isinstance(argument, ScalarArgument):
        return Argument(argument.name, argument.dtype, None)
    assert argument.dtype is not None
    return Argument(argument.name, argument.dtype, tuple(n.node for n in argument.shape), argument.const)


def _declaration(tensor: Tensor) -> BufferDeclaration:
    if tensor.dtype is None:
        hint = f"compute({tensor.name!r}, ..., dtype='f32')"
        raise program_error(f"nothing says which element type `{tensor.name}` has", hint)
    return BufferDeclaration(tensor.name, tensor.dtype, tuple(n.node for n in tensor.shape))


def _shows_type(tensor: Computed, tensors: dict[str, Tensor]) -> bool:
    """Whether the type and shape of `tensor` follow from its stage, so that it needs no declaration."""
    axes = zip(tensor.stage.axes, tensor.shape, strict=True)
    return tensor.typed and all(_reads_show_extent(axis.name, n.node, tensor.stage, tensors) for axis, n in axes)


def _drop_ranges(stage: Stage, tensors: dict[str, Tensor]) -> Stage:
    """The stage without the ranges of reduction axes that follow from its reads."""
    if not isinstance(stage.value, Reduce):
        return stage
    axes = tuple(
        replace(axis, extent=None)
        if axis.extent is not None and _reads_show_extent(axis.name, axis.extent, stage, tensors)
        else axis
        for axis in stage.value.axes
    )
    return replace(stage, value=replace(stage.value, axes=axes))


def _reads_show_extent(axis: str, extent: SourceExpr, stage: Stage, tensors: dict[str, Tensor]) -> bool:
    """Whether `axis` indexes some dimension alone, and each such dimension's extent is written like `extent`."""
    uses = [use for use in bare_uses(stage.value) if use.axis == axis and use.buffer in tensors]
    shown = [tensors[use.buffer].shape[use.dim].node for use in uses if use.dim < len(tensors[use.buffer].shape)]
    return bool(shown) and all(node == extent for node in shown)
