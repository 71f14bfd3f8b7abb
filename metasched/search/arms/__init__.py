"""A space as searches see it: arms of rows, for its sketches and for what is known before anything is measured.

Its files, in reading order:

- `recent_features`: Features of the rows that were asked for lately: a search asks for those of a row several times
- `sketch_arm`: A sketch in the form that searches use: rows and their features
- `locator`: Finding the candidates of records in a space, by the outlines of their traces, many at a time
- `reduction_parts`: The reductions of a program, each with what belongs to it, as programs of their own
- `transferred_numbers`: The numbers of neighbours in one structure: each neighbour's own, or some near them that the
  model clearly prefers
- `transferred`: What was found for the nearest programs of the same kind, carried over to a space before anything is
  measured
- `space_arms`: A `Space` in the form that searches use: an arm for each variant of each sketch, and for what is known
  beforehand
"""
