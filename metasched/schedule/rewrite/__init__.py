"""What the structural primitives share: finding, inserting, regions, guards.

Its files, in reading order:

- `nest`: New loop nests around blocks
- `parts`: Finding, removing and inserting parts of a program
- `buffer_copies`: Inserting copies of buffers before or after the nest of a block, and their preconditions
- `borders`: Where a bound in a condition begins or ceases to hold along a variable
- `convolution`: Finding the convolution in a sum of products: the windows and the filter
- `cook_toom`: Fast filtering by the method of Cook and Toom: the matrices of F(m, r), by exact rational arithmetic
- `guards`: Guards in terms of iteration variables: those that remain when a block gets new loops
- `inlined`: Checks of a block after another block's expression was inlined into it
- `iterations`: A limit on iteration counts, so that they and index arithmetic fit in 64 bits
- `loops`: What the loop primitives share: kinds, chains, and which loops carry a dependence
- `read_regions`: The region of a buffer that its readers need below a loop
- `regions`: The invariants of shared parallel regions
- `tensorize_safe`: What later steps may not change: tensorised nests, vectorised reductions, and loops of rolling
  windows
- `vector_sums`: Sums that several lanes of a vectorised loop compute: none may add terms to what another one has begun
- `written_regions`: The region of a buffer that its writer has completed when one iteration of a loop ends
"""
