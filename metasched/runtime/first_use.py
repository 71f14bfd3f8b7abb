"""Registers kernels with Numba; imported before the first kernel is made."""

from __future__ import annotations

from metasched.compiler.cpu.first_use import import_code_generator
from metasched.support.first_use import FirstUse

register_with_numba = FirstUse("metasched.runtime.numba_typing", after=import_code_generator)
