"""Kernels as files of their own, which run without this package.

Its files, in reading order:

- `instruction_sets`: The instruction sets that exported code asks for, by the names that loaders look for
- `artefact`: Writing a kernel as one Python file: the loader's source, and the machine code as text
- `loader`: A compiled kernel that runs with NumPy alone: this file loads the machine code that it carries, and calls it
- `network_loader`: A network that runs with NumPy alone: this file loads the machine code and the weights that lie
  beside it
"""
