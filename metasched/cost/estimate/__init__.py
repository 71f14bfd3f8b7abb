"""The estimate by hand, over a population: what statements touch, move and compute, and the cycles that bound them.

Its files, in reading order:

- `footprint`: How much of each buffer a statement touches under each of its loops, over a population
- `same_lines`: Lines that several reads of a statement have in common, such as those of a stencil: they come into a
  cache once
- `cache_use`: What a statement leaves in each cache between its iterations, and what it moves into each, over a
  population
- `caches`: What the caches of a CPU hold for a kernel
- `threads`: What one thread does of a statement
- `sums`: Which sums lowering can keep in registers
- `shares`: For which share of a statement's instances a condition holds, and of its unrolled copies where that is known
- `tensor_use`: What uses of a tensor intrinsic take, over a population: operands that are loaded, and registers for its
  sums
- `transposed`: Reads that are transposed in registers, over a population
- `statement_loops`: The loops around one statement over a population: their extents, vectors, unrolled copies and
  threads
- `lane_conditions`: Conditions that depend on nothing but the lane, over a population: the compiler knows which lanes
  run, so that reads under them need no masks, and may be shuffled as others are
- `statement`: One statement over a population: what its accesses load and touch, what it moves into caches, its
  register tile
- `reuse_between_statements`: The statements of a program over a population, each with what those before it have left in
  the caches
- `peak`: The arithmetic that a core can do at most, by what a statement computes: what efficiency is a share of
- `shared_loads`: What copies of unrolled code read in common, over a population: it is loaded once for all of them
- `condition_cycles`: What conditions cost a statement, and which of its instances they leave, over a population
- `handed_on`: Vectors that are loaded from what was stored just before them, as parts of two stores: a core hands on
  what one store holds, and a load of more than that waits until the first cache has both.
- `prefetched`: How much longer lines take to come where prefetchers do not bring them in time, over a population
- `roofline`: A roofline by hand: the cycles of one statement over a population, by what bounds it
"""
