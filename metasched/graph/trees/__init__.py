"""Ensembles of decision trees as programs: every tree is walked level by level, through tables of its tests.

Its files, in reading order:

- `ensemble`: Trees as arrays: tests, their branches, and what leaves add to which target
- `flat_attributes`: Trees as the attributes of a classifier and a regressor list them: a row for each node
- `split_attributes`: Trees as `TreeEnsemble` lists them: tests and leaves apart
- `comparisons`: Tests of any mode as tests of one: whether an element is at most a threshold
- `records`: Tests and leaves in one table, in which the branches of a test are neighbours
- `walk`: The programs that walk an ensemble
"""
