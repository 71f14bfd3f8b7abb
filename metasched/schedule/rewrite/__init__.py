"""What the structural primitives share: finding, inserting, regions, guards.

Its files, in reading order:

- `nest`: New loop nests around blocks
- `parts`: Looking at a program and taking pieces out of it or putting them in
- `buffer_copies`: Copies of buffers, around the nest of a block that works on them: where they may go, and putting them
  there
- `guards`: Guards in terms of iteration variables: what survives when a block gets new loops
- `inlined`: What has to hold of a block that was given another one's expression in the place of what it read
- `iterations`: How often loops may run: no more than 64 bits count, so that what is computed of loop variables fits as
  well
- `loops`: What the loop primitives share: kinds, chains, and which loops carry a dependence
- `read_regions`: The region of a buffer that its readers need below a loop
- `regions`: What primitives keep true of the parallel regions that loops share
- `tensorize_safe`: What later steps may not change: nests that an intrinsic does, and loops between storage and
  computation
- `written_regions`: The region of a buffer that its writer has completed when one iteration of a loop ends
"""
