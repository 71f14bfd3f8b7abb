"""What runs in a forked child."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def in_child(body: Callable[[], object]) -> None:
    """Run in a forked child, which has to end well, and in 40 seconds."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whatever a scenario made of it
        signal.alarm(40)  # a child that hangs is not left behind
        try:
            body()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 -- the child must not return into the parent's code
            os.write(2, f"child: {error!r}\n".encode())
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"the child ended with status {status}"
