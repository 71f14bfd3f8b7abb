"""Reads and writes of arrays: where they go, which lanes they have, and how vectors are put together.

Its files, in reading order:

- `shuffled_loads`: Reads whose lanes are in another order than memory, of which some neighbours make up all: vectors,
  and shuffles
- `transposed_loads`: Transpositions in registers: what lanes read far apart, and iterations of unrolled loops side by
  side
- `addresses`: Indices and addresses
- `lane_conditions`: Conditions that depend on the lane alone, such as `c < 3` where lanes are channels: which lanes run
  is known
- `memory`: Loads and stores
"""
