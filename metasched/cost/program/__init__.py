"""What estimates and features need to know of a scheduled program, extracted once for all its candidates.

Its files, in reading order:

- `index`: Index expressions as sums of coefficients times atoms, ready to be evaluated over a population
- `conditions`: Conditions on indices, in a form that can be evaluated over a population
- `operations`: What one instance of a statement computes, counted from its expression
- `split_fused_loops`: Parallel loops that are several loops fused, taken apart
- `joined_dims`: Neighbouring dimensions that are used as one, such as the rows and columns of an image whose pixels a
  loop counts
- `earlier_uses`: Reads of what an earlier statement has just used, in the same iteration of the loops around both
- `nest`: What the features need to know of a program, extracted once: statements, their loops and their accesses
"""
