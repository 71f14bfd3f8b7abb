"""What every test may use: golden texts, hypothesis profiles, and a fixed number of threads."""

from __future__ import annotations

import difflib
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

# Ten thousand tests are collected, and stay: nothing of them is garbage that collections would find, each time anew.
gc.disable()

# Two thread pools in one process disturb each other: NumPy's idle BLAS threads spin. This has to be said before NumPy
# is imported; worker processes inherit it. Numba gets at most four threads, so that a large machine tests what a
# small one does.
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# Tests run beside one another, so OpenMP's threads sleep while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("NUMBA_NUM_THREADS", str(min(4, len(os.sched_getaffinity(0)))))

# Tests start hundreds of processes. Where nothing may keep compiled modules, each compiles all of ours: 0.3 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A job that a shell put in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from tests.support.leftovers import Leftovers  # noqa: E402

SNAPSHOTS = Path(__file__).parent / "golden" / "snapshots"

# A calibration of the machine that tests run on would change what they see.
os.environ["METASCHED_CACHE"] = str(Path(tempfile.gettempdir(), f"metasched-tests-{os.getpid()}"))

# Compiling takes as long as it takes, so examples have no deadline.
_slow_is_fine = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("dev", deadline=None, max_examples=50, suppress_health_check=_slow_is_fine)
settings.register_profile(
    "ci", deadline=None, max_examples=50, suppress_health_check=_slow_is_fine, derandomize=True, print_blob=True
)
settings.register_profile(
    "fuzz", deadline=None, max_examples=2000, suppress_health_check=_slow_is_fine, print_blob=True
)
settings.load_profile(os.environ.get("METASCHED_HYPOTHESIS", "ci" if os.environ.get("CI") else "dev"))

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the tests produce to tests/golden/snapshots instead of comparing with it",
    )


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["METASCHED_CACHE"], ignore_errors=True)


# So many objects are searched in some milliseconds.
_MANY_OBJECTS = 50_000


def freeze_what_stays() -> None:
    """Have later searches for garbage pass over what lives now, once that is much: it is in caches, and stays.

    Towards the end of all tests a search of all objects takes 5 s.
    """
    youngest, *older = gc.get_count()
    if youngest > _MANY_OBJECTS or any(older):
        gc.collect()
        gc.freeze()


LEFTOVERS = pytest.StashKey[Leftovers]()


def pytest_collection_finish(session: pytest.Session) -> None:
    session.stash[LEFTOVERS] = Leftovers()
    gc.collect()
    gc.freeze()
    # Tests make very many objects that hardly ever have cycles: searching after each 700 takes an eighth of their time.
    gc.set_threshold(200_000, 10, 10)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After the last test of a file, nothing runs that its tests began."""
    yield
    leftovers = item.session.stash[LEFTOVERS]
    leftovers.look(item.nodeid)
    if nextitem is None or nextitem.path != item.path:
        freeze_what_stays()
        left = leftovers.found()
        if left:
            pytest.fail(f"tests of {item.path.name} leave running: " + "; ".join(left), pytrace=False)


def _normal(text: str) -> str:
    """Lines without trailing blanks, and one newline at the end: what an editor would save."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)` compares `text` with tests/golden/snapshots/NAME.txt, and shows the difference."""
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = SNAPSHOTS / f"{name}.txt"
        actual = _normal(text)
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
            return
        how = f"To accept it: pytest --update-golden {request.node.nodeid!r}, then read the diff in git."
        if not path.exists():
            pytest.fail(f"no golden text {path}. The test produced:\n\n{actual}\n{how}", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if actual != expected:
            diff = difflib.unified_diff(
                expected.splitlines(), actual.splitlines(), "golden", "this run", lineterm="", n=8
            )
            pytest.fail(f"{path} differs:\n\n" + "\n".join(diff) + f"\n\n{how}", pytrace=False)

    return check
