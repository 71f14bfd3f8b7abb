"""The queries about the program and the target that a module's text may use in conditions.

Each is declared by its signature, as a primitive is, and is not recorded in the trace. A query about
sizes is None where it depends on tile sizes, which differ between candidates.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import cache
from types import MappingProxyType
from typing import Annotated

from metasched.dtypes import DType
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int, free_vars
from metasched.ir.nodes import IterKind, LoopKind
from metasched.permissions import Permission, permission_problem
from metasched.schedule.analysis import BlockInfo, describe_block
from metasched.schedule.context import Context
from metasched.schedule.kinds import ArgumentKind, BlockName, Feature, Flag, LoopName, PermissionName, Text
from metasched.schedule.primitive import MARK, Declaration, declaration_of, primitive
from metasched.support.data_classes import dataclass
from metasched.target import Target


@dataclass
class QueryContext(Context):
    """The state that a query reads: the current program and its target."""

    find_target: Callable[[], Target] = field(kw_only=True)

    @classmethod
    def of(cls, ctx: Context, find_target: Callable[[], Target]) -> QueryContext:
        own = {f.name: getattr(ctx, f.name) for f in fields(Context)}
        return cls(**own, find_target=find_target)

    @property
    def target(self) -> Target:
        return self.find_target()


Size = Annotated[int | None, ArgumentKind.NUMBER]

block_query = primitive(pure=True)


@cache
def block_queries() -> Mapping[str, Declaration]:
    """Every block query by name."""
    found = inspect.getmembers(sys.modules[__name__], lambda value: hasattr(value, MARK))
    return MappingProxyType({name: declaration_of(fn) for name, fn in found})


def _info(ctx: Context, op: str, block: str) -> BlockInfo:
    return describe_block(ctx.func, ctx.block(op, block).name)


# --- of a block ------------------------------------------------------------------------------------------


@block_query
def reduces(ctx: Context, block: BlockName) -> Flag:
    """Whether a block is a reduction."""
    return _info(ctx, "reduces", block).reduces


@block_query
def initialises(ctx: Context, block: BlockName) -> Flag:
    """Whether a block is a reduction whose initial value is not written by a separate block."""
    return _info(ctx, "initialises", block).initialises


@block_query
def output(ctx: Context, block: BlockName) -> Flag:
    """Whether a block writes an output of the program."""
    return _info(ctx, "output", block).output


@block_query
def conditional(ctx: Context, block: BlockName) -> Flag:
    """Whether what a block computes has a condition, such as padding."""
    return _info(ctx, "conditional", block).conditional


@block_query
def divides(ctx: Context, block: BlockName) -> Flag:
    """Whether a block divides or takes a remainder."""
    return _info(ctx, "divides", block).divides


@block_query
def compares(ctx: Context, block: BlockName) -> Flag:
    """Whether a block takes a maximum or a minimum, of terms or of operands."""
    return _info(ctx, "compares", block).compares


@block_query
def elementwise(ctx: Context, block: BlockName) -> Flag:
    """Whether a block is no reduction, and every read uses each of its indices at most once, bare."""
    return _info(ctx, "elementwise", block).elementwise


@block_query
def trivial(ctx: Context, block: BlockName) -> Flag:
    """Whether a block's loops are untransformed: one for each of its indices."""
    return _info(ctx, "trivial", block).trivial


@block_query
def reuses(ctx: Context, block: BlockName) -> Flag:
    """Whether a block reads an element for more than one of its results."""
    info = _info(ctx, "reuses", block)
    spatial = {it.name for it in info.spatial if it.extent != 1}
    return any(spatial - read.iters for read in info.reads)


@block_query
def transposes(ctx: Context, block: BlockName) -> Flag:
    """Whether a block reads a buffer along another dimension than it writes: its reads or its writes are strided."""
    info = _info(ctx, "transposes", block)
    spatial = [it.name for it in info.spatial if it.extent != 1]
    return any(spatial[-1] in read.iters and spatial[-1] not in read.uses[-1] for read in info.reads if spatial)


@block_query
def calls(ctx: Context, block: BlockName, *functions: Text) -> Flag:
    """Whether a block calls one of these math functions: `calls(b, "exp", "erf")`."""
    return not set(functions).isdisjoint(_info(ctx, "calls", block).calls)


@block_query
def name(ctx: Context, block: BlockName) -> Text:
    """A block's name."""
    return ctx.block("name", block).name


@block_query
def reads(ctx: Context, block: BlockName) -> tuple[Text, ...]:
    """The names of the buffers that a block reads, each once."""
    return tuple(dict.fromkeys(read.buffer for read in _info(ctx, "reads", block).reads))


@block_query
def dtype(ctx: Context, block: BlockName) -> Text:
    """The element type of what a block computes: `dtype(b) == "bf16"`."""
    return str(_info(ctx, "dtype", block).dtype)


@block_query
def operand_dtypes(ctx: Context, block: BlockName) -> tuple[Text, ...]:
    """The element types of the buffers that a block reads, in the order of `reads(b)`."""
    found = {read.buffer: str(read.dtype) for read in _info(ctx, "operand_dtypes", block).reads}
    return tuple(found.values())


@block_query
def rank(ctx: Context, block: BlockName) -> Size:
    """How many dimensions a block's result has."""
    return len(_info(ctx, "rank", block).spatial)


@block_query
def results(ctx: Context, block: BlockName) -> Size:
    """How many elements a block computes."""
    info = _info(ctx, "results", block)
    return info.size(info.spatial)


@block_query
def terms(ctx: Context, block: BlockName) -> Size:
    """How many terms a block reduces to one result; 1 for a block that is no reduction."""
    info = _info(ctx, "terms", block)
    return info.size(info.reduction)


# --- of a loop -------------------------------------------------------------------------------------------


@block_query
def extent(ctx: Context, loop: LoopName) -> Size:
    """How often a loop runs."""
    return as_int(ctx.loop("extent", loop).extent)


@block_query
def serial(ctx: Context, loop: LoopName) -> Flag:
    """Whether a loop is serial: not parallel, vectorised or unrolled."""
    return ctx.loop("serial", loop).kind is LoopKind.SERIAL


@block_query
def spatial(ctx: Context, loop: LoopName) -> Flag:
    """Whether a loop drives only spatial variables, in every block inside it."""
    return not _drives(ctx, ctx.loop("spatial", loop).var, IterKind.REDUCE)


@block_query
def alone(ctx: Context, loop: LoopName) -> Flag:
    """Whether a loop holds one block only."""
    return len(query.blocks_under(ctx.loop("alone", loop))) == 1


@block_query
def read_along(ctx: Context, loop: LoopName) -> Flag:
    """Whether a block in a loop reads neighbouring elements in its neighbouring iterations."""
    return any(_reads_along(ctx, block.name, loop) for block in query.blocks_under(ctx.loop("read_along", loop)))


def _reads_along(ctx: Context, block: str, loop: str) -> bool:
    info = _info(ctx, "read_along", block)
    driven = {it.name for it in info.iter_of(loop)}
    return any(read.bare and read.bare[-1] in driven for read in info.reads)


# --- of the program --------------------------------------------------------------------------------------


@block_query
def has_block(ctx: Context, name: Text) -> Flag:
    """Whether the program has a block of this name now."""
    return any(block.name == name for block in query.blocks(ctx.func))


# --- of what the caller allows ---------------------------------------------------------------------------


@block_query
def allows(ctx: Context, permission: PermissionName, *blocks: BlockName) -> Flag:
    """Whether results may differ by something, in these blocks or else in all of them: `allows("fastmath", b)`."""
    problem = permission_problem(permission)
    if problem is not None:
        raise ScheduleError("allows", problem[0], hint=problem[1])
    found = [ctx.block("allows", block) for block in blocks]
    return all(ctx.allowed.in_block(Permission(permission), block) for block in found or (None,))


# --- of the target ---------------------------------------------------------------------------------------


@block_query
def target_has(ctx: QueryContext, feature: Feature) -> Flag:
    """Whether the CPU has an instruction set, by LLVM's name of it: `target_has("amx-bf16")`."""
    return ctx.target.has(feature)


@block_query
def target_lanes(ctx: QueryContext, dtype: Text) -> Size:
    """How many elements of a type a vector register holds: `target_lanes("f32")`, `target_lanes(dtype(b))`."""
    return ctx.target.lanes(_dtype("target_lanes", dtype))


@block_query
def target_threads(ctx: QueryContext) -> Size:
    """How many threads a parallel loop is divided over at most."""
    return ctx.target.threads


@block_query
def target_l1(ctx: QueryContext) -> Size:
    """Bytes of a core's first cache."""
    return ctx.target.l1


@block_query
def target_l2(ctx: QueryContext) -> Size:
    """Bytes of a core's second cache."""
    return ctx.target.l2


@block_query
def target_l3(ctx: QueryContext) -> Size:
    """Bytes of the last cache, which cores share."""
    return ctx.target.l3


def _dtype(op: str, name: str) -> DType:
    try:
        return DType(name)
    except ValueError:
        known = ", ".join(each.value for each in DType)
        raise ScheduleError(op, f'there is no element type "{name}"', hint=f"there are {known}") from None


def _drives(ctx: Context, loop: str, kind: IterKind) -> bool:
    return any(
        it.kind is kind and loop in free_vars(binding)
        for block in query.blocks_under(query.find_loop(ctx.func, loop))
        for it, binding in zip(block.iters, block.bindings, strict=True)
    )
