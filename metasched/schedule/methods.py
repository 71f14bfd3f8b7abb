"""The methods of a `Schedule` that are primitives and samplers, for type checkers and editors.

They are made from the declarations when they are called (`Schedule.__getattr__`), so the class here is empty. Their
types are in `methods.pyi`, which `make docs` writes from the same declarations.
"""

from __future__ import annotations


class PrimitiveMethods:
    """Every primitive and sampler of `metasched.schedule.primitives`, as a method."""
