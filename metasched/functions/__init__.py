"""The math functions of the language, a file each.

- `declaration`: what a file declares of its function.
- `formula`: the operations that its code is written with: lanes with Python's operators.
- `registry`: finds and checks them all.
- `library/`: the functions.
"""
