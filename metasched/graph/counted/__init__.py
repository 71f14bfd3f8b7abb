"""Values of which only a call knows how many elements there are.

Its files, in reading order:

- `absent_elements`: Elements that are not there, of values with a size that only a call knows
- `size_arithmetic`: Sizes that data decide, in values that models compute shapes of
- `joined_rows`: Values joined along a dimension of which only a call knows how many elements there are
- `places_that_hold`: The places where a condition holds, in order, and how many there are
- `views`: Views of values with a size that only a call knows: which dimension of the view has how many
- `rows`: Nodes that read values with a size that only a call knows: they compute all that there is room for
- `parts_of_rows`: Parts of known sizes along a dimension of which perhaps only a call knows how many elements there are
- `row_programs`: Programs that compute each row of their results from one row of what they read, and the same for a
  block of rows
- `filled_rows`: Nodes that go by rows of which only a call knows how many there are, in groups
- `row_blocks`: Rows of which only a call knows how many there are, in blocks: a loop runs as many as the rows fill
"""
