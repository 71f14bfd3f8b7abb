"""From the tree of a program and its parameters to IR: names, sizes, types, bounds and shapes.

Its files, in reading order:

- `sizes`: Parameters, `let`s, and expressions of numbers alone
- `bounds`: Bounds of an index under the conditions around it
- `extents`: Where iteration variables get their extents from
- `borders`: Functions that bring an index into a range: what is read beyond a border. Each stands for minima and maxima
- `conversions`: Values of one element type as values of another
- `index_hints`: What to write instead of a read whose index may leave its buffer
- `values`: Expressions with types: source expressions of one stage to IR expressions
- `stages`: One stage: its axes, its shape, and its block
- `elaborate`: From a definition and its parameters to IR: names, sizes, shapes, types and bounds
"""
