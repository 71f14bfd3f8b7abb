"""A fork waits for imports of other threads, and lets go of just what it held."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

from metasched.support.forks import ForkGuards
from metasched.support.imports import Imports


def test_a_fork_waits_for_the_imports_of_other_threads_and_not_for_its_own() -> None:
    begun, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def load(name: str) -> ModuleType:
        begun.set()
        assert go_on.wait(10)
        imports.wait()  # as a fork from this thread would
        order.append(name)
        return ModuleType(name)

    imports = Imports(load)
    thread = threading.Thread(target=imports.module, args=("slow",))
    thread.start()
    assert begun.wait(10)
    forking = threading.Thread(target=lambda: (imports.wait(), order.append("fork")))
    forking.start()
    time.sleep(0.02)
    assert order == []
    go_on.set()
    thread.join()
    forking.join()
    assert order == ["slow", "fork"]


def test_what_is_held_is_let_go_of_in_reverse_and_nothing_else() -> None:
    guards, order = ForkGuards(), []
    guards.add(lambda: (order.append("hold a"), guards.add(lambda: order.append("hold b"), lambda: order.append("b"))))
    guards._hold()
    guards.add(lambda: order.append("never"), lambda: order.append("never"))
    guards._release()
    assert order == ["hold a", "hold b", "b"]
    guards._release()
    assert order == ["hold a", "hold b", "b"]


WATCHED = """
import sys, threading
import numpy as np
import metasched as ms
from metasched.support.imports import imports

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.get_ident() not in imports._threads:
            print(name)

f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])")
sys.meta_path.insert(0, Watch())
f(np.ones((4, 3), np.float32), np.ones((3, 5), np.float32))
"""


def test_a_fork_waits_for_whatever_the_first_call_of_a_kernel_imports(tmp_path: Path) -> None:
    env = {**os.environ, "METASCHED_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.split() == []
