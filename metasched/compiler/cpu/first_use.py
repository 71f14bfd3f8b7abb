"""The code generator, imported when something is first compiled."""

from __future__ import annotations

from metasched.support.first_use import FirstUse

import_code_generator = FirstUse("metasched.compiler.cpu.codegen")
