"""A model with a size that grows from call to call, as networks of fixed room.

Its files, in reading order:

- `sizes`: The size, the lengths at which the model is imported, and what grows by one with it
- `expressions`: Expressions of a program at several lengths as one that reads the length
- `programs`: A program at several lengths as one of fixed sizes: reductions take the terms that are there
- `constants`: Constants at several lengths as one, or as a program that computes it
- `caches`: What a cache is next: itself with new elements after its last
- `fixed_length`: A model at one length of its caches as a network of fixed room
- `graph`: The graphs of a model at several lengths as one, or as one for each bucket of lengths
- `graphs_of_equal_room`: A model at several of its other sizes, with the same room for caches, so that one network may
  serve all
- `calls`: Calls of such a network: arrays are given and returned as long as they are
"""
