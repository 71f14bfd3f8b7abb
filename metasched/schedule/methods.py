"""The methods of a `Schedule` that are primitives and samplers, for type checkers and editors.

Each is made from its declaration when it is first called (`Schedule.__getattr__`), so the class here is empty. Their
types are in `methods.pyi`, which `make docs` writes from the same declarations.
"""

from __future__ import annotations


class PrimitiveMethods:
    """Every primitive and sampler of `metasched.schedule.primitives`, as a method."""
