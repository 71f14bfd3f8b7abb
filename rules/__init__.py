"""The rule library: one file a rule, written with the public API of metasched only.

Its files, in reading order; first what several rules share:

- `facts`: The typed facts on blocks that rules exchange; they are not recorded in a trace
- `counterparts`: Which iteration variables of a block are rows of another, as the reads between them say
- `tasks`: How many iterations outside are enough for the threads of a target
- `own_loops`: The loop that each iteration variable of a block is bound to
- `consumers`: What may have tiles, and the block that reads a result element by element, and can be computed wherever
  that is
- `tensor_tiles`: The loops around a tensor intrinsic: two levels of tiles, the reduction, and a tile of accumulators
- `tensor_operands`: Which tensor intrinsics fit a block, and its operands and result as one takes them: fused, padded,
  and packed
- `tensor_packing`: The nest that packs an operand for a tensor intrinsic: in the order of the copy, in vectors, on all
  threads

The rules:

- `blocked_sums`: Long sums in blocks, for accuracy
- `borders`: Padding read where it is needed, and borders as nests of their own
- `columns`: Neighbouring columns innermost in a reduction across rows
- `compute_location`: Sampled compute locations of producers that are still at the root, and of what follows tiles
- `interleaved`: Windows over pixels whose few channels lie side by side, along rows of all channels
- `dot_products`: Products of rows by rows in lanes along their terms
- `fast_arithmetic`: Arithmetic that need not be IEEE's, where the caller allows it
- `gates`: Reductions of which several results are read at a time, such as the gates of an LSTM, in tiles of these
- `grouping`: Stages of a pipeline in groups, each computed row by row in strips that threads share
- `im2col`: Convolutions as products of matrices
- `inline`: Inlining of cheap element-wise blocks
- `lockstep`: Chains of blocks that go on from element to element at one place, computed in one loop
- `long_rows`: Long rows in parts, which threads share
- `merge_parallel`: One parallel region for nests that follow one another
- `multi_level_tiling`: Multi-level tiling, with fusion of the consumer or a write cache
- `packing`: Copies of a tiled reduction's operands, in the order in which it reads them
- `padding`: Padding as zeros everywhere, and the interior copied over them
- `padding_terms`: Sums of products without the terms that read padding
- `parallelize`: Threads over the outermost loops
- `parities`: Loops split by the divisor of a condition
- `prefetch`: Lines asked for before they are read
- `prefetch_tiles`: Tiles of weights asked for while the ones before are used
- `products_in_blocks`: Sums of products of bytes in blocks that are scaled one by one, such as those of weights of a
  few bits
- `reduction_lanes`: Vector lanes along a reduction
- `rfactor`: Factoring of reductions with little other parallelism
- `rolling`: Rows that neighbouring rows of a stencil share, kept in a sliding window
- `row_chain`: Chains of row reductions, such as softmax and norms, computed a row at a time
- `row_parts`: Sums of exponentials over long rows, part by part
- `row_runs`: Loops over what lies in a row, as one
- `scans`: Running sums, products and extrema, in blocks that go on from those before them
- `short_rows`: Element-wise blocks over rows of few elements, several rows to a vector
- `short_sums`: Sums of few terms for rows of few elements, several rows to a vector
- `scatter`: Sums of what belongs to each place, by going to the place of each term
- `stream`: Stores past the caches
- `strips`: Reductions that feed others, computed in strips that stay in the second cache
- `tensorize`: Tensor intrinsics: tiles around an instruction, with operands packed as it takes them
- `use_amx`: AMX, on CPUs that have it: tiles of 16 x 16 sums
- `use_avx512_bf16`: AVX512-BF16, on CPUs that have it: pairs of products of bf16, in vectors of 16 sums
- `use_vnni`: VNNI, on CPUs that have it: four products of bytes at a time, in vectors of 16 sums or of 8
- `tensor_windows`: Tensor intrinsics that work lane by lane, in windows: sums for each channel of its own neighbours
- `use_vnni_windows`: VNNI, on CPUs that have it, lane by lane: windows of bytes, each channel its own
- `tile_transposition`: Tiling of transpositions
- `transpose_result`: Reductions with another dimension of their result last, and what they give transposed
- `unpacking`: Products with weights of a few bits, unpacked where they are multiplied
- `unroll`: Unrolling of innermost loops, up to a sampled limit
- `vectorize`: Vector lanes along the innermost loop
- `winograd`: Convolutions through transforms that take fewer multiplications

And the lists:

- `presets`: Lists of rules for kinds of targets
"""
