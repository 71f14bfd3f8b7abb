"""Tensor programs: nodes, index arithmetic, queries, printing, and what well formed means.

Its files, in reading order:

- `nodes`: The tensor-program IR: every node
- `node_base`: What every node of the IR is: a value with structural equality, and the generic traversal over it
- `node_methods`: The methods by which a kind of node is traversed, written out for its fields
- `query`: Finding things in a `Func`, and replacing them
- `integers/`: The arithmetic of indices and conditions: its normal forms, and what values it takes
- `places`: Where a term of a reduction belongs, where data says so: the one iteration of a loop that has a term
- `running`: Running reductions: each element is a reduction of the terms up to it, or from it on
- `index_map`: Index maps, such as `i, j -> j//16, i, j%16`: what they make of a space, and what undoes them
- `excerpt`: A part of a program as a program of its own
- `rolling`: Buffers whose storage outlives iterations of the loop they are computed in, and keeps a window of one
  dimension
- `regions`: Parallel loops that share a region: which statements are its phases, and what is required of them
- `prologue`: A program in two: the prologue, which depends on constant arguments alone and is run once for them, and
  the rest
- `pitch`: Arguments that are parts of larger arrays: contiguous rows, and a larger stride of an outer dimension
- `coverage`: Which instances of its blocks a small concrete program runs, by enumerating them
- `validate`: What a well-formed tensor program is, as a check that runs: `validate` states it, rule by rule
- `limits`: How large an expression may be
- `printer`: Tensor programs as text for people: scheduled or not, with free tile variables or without
- `source`: A program as it is written: the tree that text parses to and that the Python builder makes
- `source_printer`: The canonical text of a program: minimal parentheses, numbers that round-trip, one line a definition
- `work`: How much arithmetic a program does, and how fast that is
- `program`: A program with its parameters set: what is computed, as written and as IR
- `highlight`: Colour for printed programs and traces: in a terminal, and in a notebook
- `notebook`: What values show of themselves in a notebook: tables of texts, in which nothing is markup
"""
