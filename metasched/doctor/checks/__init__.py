"""Checks, a file each, which defines `check`: from an `Examined` to a `Finding`.

- `cache`: whether what can be made again is kept, in a folder that nobody else can write
- `calibration`: whether this machine has measured itself
- `clock`: whether the same code takes the same time
- `instruction_sets`: what kernels can use of this CPU
- `neighbours`: what else runs now
- `packages`: what installed packages add, and whether it is where it is looked for
- `processor`: which CPU it is
- `threading`: which threading layer Numba has
- `threads`: whether the kernels' threads have a core each
"""
