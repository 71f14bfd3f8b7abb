"""Modules in text: read, checked, and run as rules.

Its files, in reading order:

- `values`: The plain values of modules in text, and the functions and operators on them
- `decisions`: Decisions in modules, `:=`, that are wrong for every program
- `varying`: Which values differ between the candidates of one structure, as far as the text of a module shows
- `check`: Mistakes in modules that are found before they run: names, calls, arities, branches on random variables
- `run`: Running modules in text: the same `Schedule` methods that a Python module calls, so the same trace
- `modules`: Modules in text as values: called, configured and printed
- `rules`: Modules in text, loaded: from a text, or from a file that may hold several and programs besides
"""
