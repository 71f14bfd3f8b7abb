"""Lowering: from a scheduled `Func` to loops and flat arrays. It derives and never chooses.

Its files; the passes come in the order in which they run:

- `nest`: The loop nest that lowering works on, between a `Func` and the low-level program
- `registers`: How many vector registers an array takes
- `build`: iteration variables become their bindings; loops of one iteration vanish; provable guards go
- `quotients`: Quotients and remainders that the loops' ranges decide
- `unroll`: which loops are unrolled, by kind and by unroll limits
- `strip_mining`: a vectorised loop around other loops becomes a loop over its strips around one vector
- `initialise`: where a reduction starts becomes a nest of its own, before the reduction
- `residues`: Conditions on remainders, such as those of the parities of a strided transposed convolution
- `partial_sums`: long sums are taken in blocks, where the schedule says so
- `layouts`: what a buffer's layout says becomes its indices
- `arg_positions`: The positions of an arg-reduction: in which order they come, where they start, and how small a type
  holds them
- `storage`: intermediates are placed, shrunk to the region used there, and put in registers where they can be
- `lanes`: a reduction along a vectorised loop is one in each lane, and a fold of the lanes at its end
- `clamps`: Loops in parts, so that most of a row is read where it lies although its border is read by clamped indices
- `specialise`: imperfect tiles become a case for the full tile and one for the rest
- `accumulators`: accumulators move to registers around the reduction loops they are invariant in
- `carried_values`: What each iteration of a carried loop takes over from the one before stays in a register
- `tiles`: Accumulators in tile registers: what the output of a tensor intrinsic with tiles is while its reduction runs
- `scatters`: of a scattered loop, only the iteration that data says has a term is run
- `terms`: terms of a reduction that are not there become guards
- `term_cases`: Terms that part of a register tile has: code for the whole tile, and for each part of it that occurs
- `bounded_rows`: Terms of register tiles whose rows are there within bounds of their own: those that read padding, and
  last ones
- `operand_order`: where operands do not all fit beside accumulators, a tile uses them in the order that takes the
  fewest registers
- `last_blocks`: The last block of a sum whose terms are unrolled in blocks that do not divide them, in code of its own
- `invariants`: Long operations that are the same in all iterations of a loop come before it, into a register
- `register_warnings`: Warnings of accumulators that stay in memory: why, and what to do
- `guards`: what guards are left clip loops, or become conditions as far out as possible
- `prefetch`: Prefetches what a loop reads some iterations ahead
- `tensors`: A tensorised nest becomes one use of its intrinsic: where each operand starts, and its strides
- `counters`: Counters around the parts of a nest, to know where its time goes: the last thing that is done to one
- `flatten`: one flat index for each access, as a sum ordered by loops
- `widths`: whether all that fits in 64 bits
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from metasched.compiler import lir
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.accumulators import Promotion
from metasched.compiler.lower.bounded_rows import roll_terms
from metasched.compiler.lower.build import build
from metasched.compiler.lower.carried_values import hand_on_values
from metasched.compiler.lower.clamps import cut_at_clamps
from metasched.compiler.lower.counters import CountedPart, NestCounters
from metasched.compiler.lower.flatten import arrays, flatten
from metasched.compiler.lower.guards import place_guards
from metasched.compiler.lower.initialise import place_inits
from metasched.compiler.lower.invariants import lift_invariants
from metasched.compiler.lower.lanes import ReductionLanes
from metasched.compiler.lower.last_blocks import peel_last_blocks
from metasched.compiler.lower.layouts import apply_layouts
from metasched.compiler.lower.nest import NameSupply, NestStmt
from metasched.compiler.lower.operand_order import order_operands
from metasched.compiler.lower.partial_sums import sum_in_blocks
from metasched.compiler.lower.register_warnings import RegisterWarnings
from metasched.compiler.lower.scatters import place_terms
from metasched.compiler.lower.specialise import specialise
from metasched.compiler.lower.storage import Budget, Storage, place_storage
from metasched.compiler.lower.strip_mining import split_strips
from metasched.compiler.lower.term_cases import split_terms_by_tile
from metasched.compiler.lower.terms import guard_terms
from metasched.compiler.lower.unroll import check_copies, mark_unrolled
from metasched.compiler.lower.widths import index_arithmetic_wraps
from metasched.compiler.policy import accumulator_registers
from metasched.errors import BuildError
from metasched.ir import query
from metasched.ir.nodes import Func
from metasched.support.data_classes import dataclass
from metasched.target import Target

MAX_WORKSPACE = 1 << 30


@dataclass(frozen=True)
class _LoweredNest:
    """A nest that nothing is left to be done to but to make its accesses flat."""

    func: Func
    nest: NestStmt
    storages: Mapping[str, Storage]
    warnings: tuple[str, ...]

    def flatten_nest(self, nest: NestStmt) -> lir.LoopProgram:
        """The low-level program of this nest, or of one that differs in its counters."""
        func, body = self.func, flatten(nest, self.storages)
        kernel = lir.LoopProgram(
            func.name,
            func.order + tuple(b.name for b in func.outputs),
            func.scalars,
            arrays(self.storages),
            body,
            self.warnings,
            index_arithmetic_wraps(body),
        )
        _check_workspace(kernel)
        return kernel


@lru_cache(maxsize=8)
def lower(func: Func, target: Target) -> lir.LoopProgram:
    """The low-level program of a concrete `func`. The last few are kept: what is guessed is lowered to see whether the
    machine can run it, and once more to be compiled.

    Raises BuildError: free variables left, unrolling too large, a register buffer that does not fit, a vectorised
    loop that carries a reduction or holds another, a workspace over 1 GiB, index arithmetic that leaves 64 bits.
    """
    lowered = _lower_to_nest(func, target)
    return lowered.flatten_nest(lowered.nest)


def lower_counted(func: Func, target: Target, most: int) -> tuple[lir.LoopProgram, tuple[CountedPart, ...]]:
    """The program that `lower` makes, with counters around its parts, and these parts. A part inside of loops begins at
    most `most` times on one thread. Raises BuildError as `lower` does.
    """
    lowered = _lower_to_nest(func, target)
    counters = NestCounters(target.threads, most)
    program = lowered.flatten_nest(counters.count_nest(lowered.nest))
    return program, tuple(counters.parts)


def _lower_to_nest(func: Func, target: Target) -> _LoweredNest:
    names = NameSupply(query.names(func))
    nest = split_strips(mark_unrolled(build(func)), names)
    nest = place_inits(nest, names, target)
    func, nest = sum_in_blocks(func, nest, names)
    budget = Budget(accumulator_registers(target.registers))
    func, nest = apply_layouts(func, nest)
    nest, storages = place_storage(func, nest, target, budget)
    declined = RegisterWarnings()
    nest, lanes = ReductionLanes(target, budget, names, declined).run(nest)
    storages |= lanes
    nest = specialise(cut_at_clamps(nest, names))
    nest, accumulators = Promotion(storages, target, budget, names, declined).run(nest)
    storages |= accumulators
    nest, carried = hand_on_values(nest, storages, names)
    storages |= carried
    nest = split_terms_by_tile(roll_terms(guard_terms(place_terms(nest)), storages, target))
    nest = peel_last_blocks(order_operands(nest, storages, target, names))
    nest, invariants = lift_invariants(nest, names)
    storages |= invariants
    check_copies(nest)
    return _LoweredNest(func, place_guards(nest), storages, declined.warnings)


def _check_workspace(kernel: lir.LoopProgram) -> None:
    size = sum(a.size * a.dtype.bytes for a in kernel.arrays if a.kind in (ArrayKind.SHARED, ArrayKind.THREAD))
    if size > MAX_WORKSPACE:
        raise BuildError("workspace too large", f"intermediates take {size >> 20} MiB; at most {MAX_WORKSPACE >> 20}")


__all__ = ["CountedPart", "lower", "lower_counted"]
