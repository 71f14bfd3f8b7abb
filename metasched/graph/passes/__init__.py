"""Rewritings of a graph, a file each: a function from a graph to a graph that computes the same outputs.

Its files, in reading order:

- `declaration`: How a pass is declared, and what it is given
- `dead_code`: What no output depends on is left out
- `constants_into_loops`: What a loop reads that is computed of constants alone is computed in its body
- `integer_products`: Products of quantised numbers are products of bytes, with totals of 32 bits
- `constant_folding`: What depends on constants alone is computed once
- `loop_invariants`: What no step of a loop changes is computed once
- `common_subexpressions`: What is computed twice from the same values is computed once
- `summed_windows`: Sums of convolutions of one value, of scales of it, and of itself are one convolution
- `factors`: A number that an operand of a product is multiplied by multiplies the result, if that is smaller
- `repeats`: Products with repeated values go over the part of a dimension along which they are repeated
- `shapes`: Nodes go over their data in the shape in front of a view, where the view would cost something
- `layouts`: The order of dimensions in memory is chosen once for each region of values that go together
- `movement`: Transposes, slices and broadcasts are read through
- `rotations`: Two parts of a value that change places are read by an index with a remainder
- `fusion`: Nodes are joined with what computes their inputs, where that saves memory traffic
- `bytes_between`: Dequantised bytes that one kernel hands to another are handed over as the bytes
- `scales_into_weights`: Factors and offsets by constants are worked out ahead, and factors go into weights
- `side_by_side`: Products of one value with several weights are one product
- `bf16`: Factors of products of matrices and of convolutions are bf16, and so are values between kernels
- `wide_factors`: Values of f16 that products read many times are kept in f32 between kernels
- `strips`: Reductions with a large result between them are joined, to be computed in strips
- `dimensions`: Dimensions that a program always uses together become one
- `parts`: What joins or divides values computes nothing: values lie in the memory of others
- `states`: What is next a state with a stretch replaced is written where the state lies
- `padding_terms`: Terms of convolutions that read rows of padding are left out
- `unread_rows`: Padded copies have no rows that no term reads
- `pipeline`: The passes that there are, in the order that they ask for; and a graph after all of them
"""
