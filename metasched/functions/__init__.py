"""The math functions of the language, a file each.

- `declaration`: what a file declares of its function.
- `formula`: what its code is written in: lanes with Python's operators.
- `registry`: finds and checks them all.
- `library/`: the functions.
"""
