"""Lists of rules for kinds of targets."""

from __future__ import annotations

from metasched.rules.blocked_sums import blocked_sums
from metasched.rules.borders import borders
from metasched.rules.columns import columns
from metasched.rules.compute_location import compute_location
from metasched.rules.dot_products import dot_products
from metasched.rules.fast_arithmetic import fast_arithmetic
from metasched.rules.gates import gates
from metasched.rules.grouping import grouping
from metasched.rules.im2col import im2col
from metasched.rules.inline import inline
from metasched.rules.interleaved import interleaved
from metasched.rules.lockstep import lockstep
from metasched.rules.long_rows import long_rows
from metasched.rules.multi_level_tiling import multi_level_tiling
from metasched.rules.packing import packing
from metasched.rules.padding import padding
from metasched.rules.padding_terms import padding_terms
from metasched.rules.parallelize import parallelize
from metasched.rules.parities import parities
from metasched.rules.prefetch import prefetch
from metasched.rules.prefetch_tiles import prefetch_tiles
from metasched.rules.products_in_blocks import products_in_blocks
from metasched.rules.reduction_lanes import reduction_lanes
from metasched.rules.rfactor import rfactor
from metasched.rules.rolling import rolling
from metasched.rules.row_chain import row_chain
from metasched.rules.row_parts import row_parts
from metasched.rules.row_runs import row_runs
from metasched.rules.scans import scans
from metasched.rules.scatter import scatter
from metasched.rules.short_rows import short_rows
from metasched.rules.short_sums import short_sums
from metasched.rules.stream import stream
from metasched.rules.strips import strips
from metasched.rules.tile_transposition import tile_transposition
from metasched.rules.transpose_result import transpose_result
from metasched.rules.unpacking import unpacking
from metasched.rules.unroll import unroll
from metasched.rules.use_amx import use_amx
from metasched.rules.use_avx512_bf16 import use_avx512_bf16
from metasched.rules.use_vnni import use_vnni
from metasched.rules.use_vnni_windows import use_vnni_windows
from metasched.rules.vectorize import vectorize
from metasched.rules.winograd import winograd

# Order matters: convolutions are transformed while they are as written, sums are marked while their lengths are known,
# chains are found while they are whole, inlining shortens the program before strips and tiling see it, tensor
# intrinsics come before vectors, those that do most at a time first, and loops are assigned to threads and lanes last.
cpu = (
    winograd,
    padding_terms,
    scans,
    blocked_sums,
    unpacking,
    products_in_blocks,
    row_parts,
    row_chain,
    lockstep,
    grouping,
    inline,
    gates,
    strips,
    scatter,
    rfactor,
    borders,
    transpose_result,
    parities,
    use_amx,
    use_avx512_bf16,
    use_vnni,
    use_vnni_windows,
    im2col,
    interleaved,
    dot_products,
    short_sums,
    multi_level_tiling,
    packing,
    rolling,
    compute_location,
    padding,
    row_runs,
    short_rows,
    tile_transposition,
    long_rows,
    columns,
    parallelize,
    prefetch,
    prefetch_tiles,
    vectorize,
    reduction_lanes,
    stream,
    fast_arithmetic,
    unroll,
)
