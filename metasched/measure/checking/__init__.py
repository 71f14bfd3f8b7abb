"""Whether a candidate computes what its program says: on which data, against what, and how far from it.

Its files, in reading order:

- `archive`: Arrays in a file, of every element type: those that NumPy's own format does not know are kept as their bits
- `place_values`: Which integers among a program's arguments say places: those that it compares with its iteration
  variables
- `inputs`: The data a program is checked and timed on
- `arithmetic`: How a schedule's results are computed, where it was allowed that they be computed otherwise than the
  program says
- `tolerance`: How far a correct kernel may be from the float64 reference, and when it must not differ at all
- `check`: Whether a candidate computes what its program says
"""
