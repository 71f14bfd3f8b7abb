"""Reading a Python file that a person wrote for metasched: rules, or a strategy."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any


def names_of(
    path: Path, error: Callable[[str], Exception], running: AbstractContextManager[None] | None = None
) -> dict[str, Any]:
    """What a Python file defines, by name. It is read anew each time, without the cache of compiled files, which takes
    two versions of the same size and modification second for one.

    `running` is the context in which the file's own code runs. Raises `error`, made from a message, where there is no
    such file and for what is not Python.
    """
    if not path.is_file():
        raise error(f"there is no file {path}")
    if path.suffix != ".py":
        raise error(f"{path} is not a Python file")
    linecache.checkcache(str(path))
    module = ModuleType(f"metasched.file:{path.resolve()}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look up names there
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except SyntaxError as wrong:
        text = "".join(traceback.format_exception_only(wrong)).rstrip()
        raise error(f"{path} is not Python that runs:\n{text}") from None
    with running or nullcontext():
        exec(code, module.__dict__)
    return module.__dict__
