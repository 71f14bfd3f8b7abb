"""Distributions: what a sampler draws from, for one candidate or for a population.

Its files, in reading order:

- `base`: The one interface of random variables
- `categorical`: An integer from a list of values
- `choice`: Structural variables: one of a few options that change what the program looks like
- `factors`: Inner factors of an extent, from which the outer one follows: the base of the tile distributions
- `tile`: Tile sizes of a loop
- `partitioned_tile`: Tile sizes whose inner part is a multiple of a number
"""
