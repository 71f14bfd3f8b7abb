"""What functions of several node types take: parts, windows, running and sorted rows, known places, packed numbers,
scores of classes.

Its files, in reading order:

- `moved_elements`: Values whose elements are those of others elsewhere: other orders of dimensions, parts, values side
  by side
- `running_reductions`: Running sums, products and extrema of rows
- `windows`: Windows that slide over spatial dimensions
- `merged_blocks`: Rows in order: blocks of them are ranked, and merged in pairs
- `exchanged_rows`: Rows in order by a network of exchanges, of numbers that are an element and its place each
- `selected_elements`: The first elements of long rows, looked for in few blocks of them
- `repeated_elements`: Values that repeat another along dimensions of which that has one element
- `known_elements`: Elements of values that depend on constants alone, though the graph computes them in each call
- `greatest_numbers`: The greatest whole number that a value can be, by the programs that compute it
- `known_places`: Places of a tensor that are known, one for each of some updates: a box of it, or a table
- `feature_rows`: Rows of columns, which models of tables read
- `scores`: What becomes of the sums of a model: base values, and what is done to them last
- `class_labels`: Labels of classes, and the scores of two classes of which a model computes one
- `packed_numbers`: Weights of a few bits each, packed in bytes, with a scale and a zero point for each block of them
- `products_in_blocks`: Products with weights of a few bits in which what they multiply is rounded to bytes, a block at
  a time
"""
