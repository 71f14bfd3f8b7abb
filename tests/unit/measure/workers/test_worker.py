"""What a worker has before its first request."""

from __future__ import annotations

import subprocess
import sys


def test_what_any_trace_needs_is_imported_before_workers_are_forked() -> None:
    code = "from metasched.measure.workers.worker import Worker; Worker.warm_up(); import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "metasched.schedule.primitives.split" in done.stdout.split()
