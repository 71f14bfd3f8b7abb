"""Programs joined to one: what a graph's passes make of several nodes, and what they see in programs.

Its files, in reading order:

- `indices`: Index expressions in one linear form, simplified by what is known of their variables
- `expressions`: Expressions of programs: substitution, their types, and the operations that they take
- `stages`: The stages of a program with every shape and range written out, and a program made of stages
- `views`: Reads through a shape view as reads of what it is a view of
- `inlining`: Intermediate values that are written into what reads them
- `repeated`: Intermediate values without dimensions along which they repeat
- `canonical`: One text for equal stages: order, names, and index expressions
- `known_constants`: Constants whose elements indices say: masks that hide nothing, places in order, triangles
- `merge`: Nodes of a graph joined to one, and the program that it runs
- `rows`: The outer indices over which all stages of a program are independent
- `affine`: What constants do to a value: a factor and an offset
- `windows`: Values that are sums of another's elements in a window around each place, times constants
- `kinds`: What limits a program: memory, or arithmetic on what it reads repeatedly
- `copies`: Programs that only copy: concatenations, slices, splits, permutations, whatever they were called
- `updates`: Programs that replace a stretch of a tensor: what a decoder does to its cache of keys
"""
