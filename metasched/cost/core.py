"""The few constants of a CPU core that the hand-made terms use.

By default they are orders of magnitude for current x86 cores, the same for every target but for those that compute
their vectors in halves. A `Core` is a value that goes with the target, from whoever asks for an estimate down to the
terms. What else differs between targets (caches, vector registers, threads) comes from the target.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.schedule.tensor import Intrinsic
from metasched.support.data_classes import dataclass
from metasched.target import Target


@dataclass(frozen=True)
class Core:
    """What a core takes.

    Attributes:
        operations: operations of vectors in a cycle.
        loads: vectors that are loaded in a cycle.
        stores: vectors that are stored in a cycle.
        broadcasts: single elements that fill a register in a cycle, where that is an instruction of its own: with
            AVX-512 it is part of what uses them.
        operation_latency: cycles until a sum of floats can be used.
        extreme_latency: cycles until a maximum or minimum can be used.
        integer_latency: cycles until a sum of integers can be used.
        memory_round_trip: cycles until a sum in memory can be used, after it was stored.
        l2_bytes: bytes in a cycle from the second cache.
        l3_bytes: bytes in a cycle from the last cache, in each thread.
        memory_bytes: bytes in a cycle from memory, in each thread.
        handed_over_bytes: bytes in a cycle from the cache of another core.
        scatter: times as long as others that lines of runs shorter than `stream_bytes` take, at most, to come from the
            last cache or memory.
        scattered_store: the same of lines that are stored.
        scattered_pages: the same of lines in rows a page or more apart.
        stream_bytes: bytes of a run from which on its lines come in time.
        page_bytes: bytes that come from memory in the time that it takes to come to another page.
        line_latency: cycles until a line from beyond the second cache is there that nothing asked for in time.
        straddled_line: times longer that a line takes, for each vector of it that lies in the next as well.
        loop_overhead: cycles of an iteration of a loop, beside its body.
        fused_digit: cycles in which an iteration of a fused loop finds out that of one of the loops it was fused of.
        mask_overhead: cycles of a vector whose lanes are not all at work.
        tail_overhead: cycles of a vector whose lanes never all are.
        masked_update: cycles of a masked sum in memory.
        masked_sum: cycles that a load waits for a masked sum after it was stored.
        split_load: cycles that a load waits for two stores just before it, each of which has a part of it.
        branch_overhead: cycles of a condition in unrolled code.
        issue: instructions that are started in a cycle.
        decoded: the same in loops of register tiles that have more instructions than `kept_decoded`.
        kept_decoded: instructions of a loop that are decoded once.
        redirected_read: instructions of a read of one element under a condition.
        masked_read: instructions of a read of a vector under a condition.
        lane_mask: more instructions of one where lanes differ.
        transfer: cycles of an accumulator that is loaded and stored again.
        window: instructions that are seen ahead.
        shuffle: cycles in which the lanes of a vector are halved.
        parallel_launch: cycles to start threads on a region and to wait for their end.
        barrier: cycles for threads to wait for one another inside a region.
        late_thread: the share of its time that a thread is behind at the end of a parallel loop, where others cannot
            take over what is left of its part.
        tile_setup: cycles in which a thread makes tile registers usable and gives them up.
        instruction_bytes: bytes of code of an instruction.
        code_bytes: bytes of code that stay in the first cache of instructions.
        register_shortfall: cycles of an operation of a tile that takes a register more than there are.
        usable: the share of a cache that a working set can have.
        kept_whole: the share of a cache that is kept from one run to the next; of what takes twice that, nothing is.
        last_cache_bytes: bytes of the last cache that a kernel has, at most.
        throughputs: tensor intrinsics by name, and cycles from one use to the next where these are not as declared.
    """

    operations: float = 2.0
    loads: float = 2.0
    stores: float = 1.0
    broadcasts: float = 1.0
    operation_latency: float = 4.5
    extreme_latency: float = 6.0
    integer_latency: float = 1.0
    memory_round_trip: float = 9.0
    l2_bytes: float = 40.0
    l3_bytes: float = 12.0
    memory_bytes: float = 5.0
    handed_over_bytes: float = 2.0
    scatter: float = 4.0
    scattered_store: float = 2.0
    scattered_pages: float = 8.0
    stream_bytes: float = 512.0
    page_bytes: float = 400.0
    line_latency: float = 130.0
    straddled_line: float = 0.5
    loop_overhead: float = 1.2
    fused_digit: float = 1.5
    mask_overhead: float = 3.0
    tail_overhead: float = 0.5
    masked_update: float = 1.5
    masked_sum: float = 20.0
    split_load: float = 30.0
    branch_overhead: float = 1.5
    issue: float = 5.0
    decoded: float = 3.3
    kept_decoded: float = 368.0
    redirected_read: float = 8.0
    masked_read: float = 5.0
    lane_mask: float = 10.0
    transfer: float = 2.0
    window: float = 97.0
    shuffle: float = 1.0
    parallel_launch: float = 8000.0
    barrier: float = 1000.0
    late_thread: float = 0.1
    tile_setup: float = 180.0
    instruction_bytes: float = 8.0
    code_bytes: float = 24 * 1024
    register_shortfall: float = 0.05
    usable: float = 0.8
    kept_whole: float = 0.75
    last_cache_bytes: float = 64 * 2**20
    throughputs: tuple[tuple[str, float], ...] = ()

    def throughput(self, intrinsic: Intrinsic) -> float:
        """Cycles from one use of a tensor intrinsic to the next."""
        return dict(self.throughputs).get(intrinsic.name, intrinsic.throughput)


DEFAULT_CORE = Core()
# CPUs whose units and paths to the first cache have half the width of their vectors, by LLVM's names and the width:
# `metasched calibrate` measures 1.02, .93 and .505 on a Zen 4. By these, guesses for 60 layers of five operators took
# .96 of the time there, depthwise ones .85. Its last cache is four times as fast as the default says, too, but by 40
# bytes a cycle 72 of 739 guesses for layers and networks were others, and took 1.02 of the time.
# Pairs of products of bf16 are added up there as fast as it multiplies and adds, so twice the products; on Intel's CPUs
# of the defaults half as fast, so no more of them.
_HALF_WIDTH_CORE = replace(DEFAULT_CORE, operations=1.0, loads=1.0, stores=0.5, throughputs=(("dot_bf16_avx512", 1.0),))
_HALF_WIDTH_TARGETS = frozenset({("znver4", 512)})


def default_core(target: Target) -> Core:
    """The constants of a target that nobody has measured."""
    return _HALF_WIDTH_CORE if (target.name, target.vector_bits) in _HALF_WIDTH_TARGETS else DEFAULT_CORE
