"""Emission: from the low-level loop program to the text of an LLVM module.

`types` spells values; `linear` does index arithmetic; `text` builds a function's text; `scope` is what is known at a
point; `arith`, `memory`, `expressions` and `statements` emit, each on top of the one before; `runtime` launches
parallel loops and finds workspaces; `module` puts a module together.
"""

from __future__ import annotations

from metasched.compiler.cpu.emit.module import EmittedModule, emit

__all__ = ["EmittedModule", "emit"]
