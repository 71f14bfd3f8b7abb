"""The few constants of a CPU core that the hand-made terms use.

By default they are orders of magnitude for current x86 cores, the same for every target but for those that compute
their vectors in halves. A `Core` is a value that goes with the target, from whoever asks for an estimate down to the
terms. What else differs between targets (caches, vector registers, threads) comes from the target.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.support.data_classes import dataclass
from metasched.target import Target


@dataclass(frozen=True)
class Core:
    """Per cycle: vector operations, loads, stores, and bytes from each cache, `handed_over_bytes` from that of another
    core. Latencies and overheads in cycles.

    `parallel_launch` is what it costs to start threads on a region and to wait for their end, `barrier` what it costs
    them to wait for one another inside one, `late_thread` the share of its time that a thread is behind at the end of a
    parallel loop, where others cannot take over what is left of its part. `tile_setup` is what it costs a thread to
    make tile registers usable and to give them up, `operation_latency` that of sums of floats, `extreme_latency` of
    maxima and minima,
    `integer_latency` of integers. `transfer` is what an
    accumulator costs that is loaded and stored again, `mask_overhead` what a vector costs whose lanes are not all at
    work, `tail_overhead` one whose lanes never are, `masked_update` one of sums in memory, which a load waits
    `masked_sum` for after they were stored; `branch_overhead` a condition in unrolled code. `window` is how many
    instructions the core sees ahead, `issue` how many it starts in a cycle, or `decoded` in loops of register tiles
    that have more than `kept_decoded`; `crowded` is what an operation of a tile costs that lacks one register. A read
    of one element under a condition takes `redirected_read` of them, one of a vector `masked_read`, and `lane_mask`
    more where lanes differ.
    `broadcasts` are those of single elements per cycle that are instructions of their own: with AVX-512 they are part
    of what uses them. Lines of runs shorter than `stream_bytes` take up to `scatter` times as long to come from the
    last cache or memory, `scattered_pages` where they are of rows a page or more apart, those stored `scattered_store`,
    and `straddled_line` times longer for each vector of a line that lies in the next as well. Of a last cache a kernel
    has `last_cache_bytes` at most. A cache keeps what takes `kept_whole` of it from one run to the next, and nothing of
    what takes twice that.
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
    line_latency: float = 130.0
    straddled_line: float = 0.5
    loop_overhead: float = 1.2
    mask_overhead: float = 3.0
    tail_overhead: float = 0.5
    masked_update: float = 1.5
    masked_sum: float = 20.0
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
    crowded: float = 0.05
    usable: float = 0.8
    kept_whole: float = 0.75
    last_cache_bytes: float = 64 * 2**20


DEFAULT_CORE = Core()
# CPUs whose units and paths to the first cache have half the width of their vectors, by LLVM's names and the width:
# `metasched calibrate` measures 1.02, .93 and .505 on a Zen 4. By these, guesses for 60 layers of five operators took
# .96 of the time there, depthwise ones .85.
_HALVES = replace(DEFAULT_CORE, operations=1.0, loads=1.0, stores=0.5)
_IN_HALVES = frozenset({("znver4", 512)})


def default_core(target: Target) -> Core:
    """The constants of a target that nobody has measured."""
    return _HALVES if (target.name, target.vector_bits) in _IN_HALVES else DEFAULT_CORE
