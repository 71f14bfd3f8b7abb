"""Ways to watch a tuning run: a line that changes on a terminal or in a notebook, a line now and then elsewhere."""

from __future__ import annotations

import html
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, Protocol, TextIO, TypeAlias, TypeVar, runtime_checkable

from metasched.errors import MetaschedError
from metasched.report.progress import Progress, ProgressCallback
from metasched.report.progress_text import progress_line
from metasched.support.data_classes import dataclass

_ERASE_TO_END = "\x1b[K"
STARTING = "making its space, starting workers, computing what is right ..."


class Countable(Protocol):
    """What is common to the progress of a task and that of networks."""

    @property
    def trials(self) -> int: ...

    @property
    def total(self) -> int | None: ...


P_contra = TypeVar("P_contra", bound=Countable, contravariant=True)


@runtime_checkable
class RunView(Protocol[P_contra]):
    """Called at the start, after every finished measurement, and at the end."""

    def begin(self, task: str) -> None: ...

    def __call__(self, progress: P_contra) -> None: ...

    def close(self) -> None: ...


ProgressView: TypeAlias = RunView[Progress]


@dataclass
class LiveLine:
    """One line of a terminal, rewritten in place; cut to its width, since a wrapped line cannot be rewritten."""

    stream: TextIO
    width: Callable[[], int] = lambda: shutil.get_terminal_size().columns
    _drawn: bool = False

    def begin(self, task: str) -> None:
        self._draw(f"{task}  {STARTING}")

    def __call__(self, progress: Progress) -> None:
        line = progress_line(progress)
        if len(line) >= self.width():
            # The sizes are left out first: the command above the line has them.
            line = progress_line(replace(progress, task=progress.task.partition("[")[0]))
        self._draw(line)

    def _draw(self, line: str) -> None:
        room = self.width() - 1
        if len(line) > room:
            line = line[: max(room - 1, 0)] + "…"
        self.stream.write(f"\r{line}{_ERASE_TO_END}")
        self.stream.flush()
        self._drawn = True

    def close(self) -> None:
        if self._drawn:
            self.stream.write("\n")
            self.stream.flush()
            self._drawn = False


@dataclass
class Lines(Generic[P_contra]):
    """A line every `every_s` seconds, and one for the last trial: for logs. `line` says what it is."""

    stream: TextIO
    line: Callable[[P_contra], str]
    every_s: float = 5.0
    now: Callable[[], float] = time.monotonic
    _last: float | None = None

    def begin(self, task: str) -> None:
        self._say(f"{task}  {STARTING}")

    def __call__(self, progress: P_contra) -> None:
        now = self.now()
        if self._last is None or now - self._last >= self.every_s or progress.trials == progress.total:
            self._say(self.line(progress))
            self._last = now

    def _say(self, line: str) -> None:
        print(line, file=self.stream, flush=True)

    def close(self) -> None:
        """Nothing is left open."""


@dataclass
class NotebookView(Generic[P_contra]):
    """What is below a notebook's cell, shown anew, every `every_s` seconds at most.

    `display` is IPython's function of that name; `shown` makes what it shows.
    """

    display: Callable[..., Any]
    shown: Callable[[P_contra], object]
    every_s: float = 0.0
    now: Callable[[], float] = time.monotonic
    _handle: Any = None
    _last: float | None = None

    def begin(self, task: str) -> None:
        self._draw(NotebookLine(f"{task}  {STARTING}"))

    def __call__(self, progress: P_contra) -> None:
        if self._last is None or self.now() - self._last >= self.every_s:
            self._last = self.now()
            self._draw(self.shown(progress))

    def _draw(self, shown: object) -> None:
        if self._handle is None:
            self._handle = self.display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def close(self) -> None:
        """What is shown last stays; the next run has its own."""
        self._handle = self._last = None


@dataclass(frozen=True)
class NotebookLine:
    """A text that a notebook shows as it is."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(self.text)}</code>"


@dataclass(frozen=True)
class Unseen(Generic[P_contra]):
    """Shows nothing, but calls a function after every measurement if there is one."""

    tell: Callable[[P_contra], None] | None = None

    def begin(self, task: str) -> None:
        """Nothing is shown."""

    def __call__(self, progress: P_contra) -> None:
        if self.tell is not None:
            self.tell(progress)

    def close(self) -> None:
        """Nothing is left open."""


# What a caller may pass as `progress`: False for none, a function or a view to be called, True for at least lines of
# text, and None for a view only where somebody watches.
Shown = bool | ProgressCallback | ProgressView | None


def progress_view(stream: TextIO | None = None) -> ProgressView:
    """The best view available: in a notebook, on a terminal, or otherwise lines now and then on `stream`, by default
    standard error.

        >>> import io
        >>> log = io.StringIO()
        >>> view = ms.progress_view(log)  # for ms.tune(prog, progress=view)
    """
    display = notebook_display()
    if stream is None and display is not None:
        return NotebookView(display, lambda progress: NotebookLine(progress_line(progress)))
    out = sys.stderr if stream is None else stream
    return LiveLine(out) if out.isatty() else Lines(out, progress_line)


def view_of(shown: Shown) -> ProgressView:
    """The view for a caller's `progress=`."""
    return chosen_view(shown, progress_view)


def chosen_view(
    shown: bool | Callable[[P_contra], None] | RunView[P_contra] | None, best: Callable[[], RunView[P_contra]]
) -> RunView[P_contra]:
    """The view for a caller's `progress=`; `best` makes the best one available. Raises MetaschedError for what is
    none.
    """
    if isinstance(shown, RunView):
        return shown
    if callable(shown):
        return Unseen(shown)
    if shown is not None and not isinstance(shown, bool):
        raise MetaschedError(
            f"`progress` is {shown!r}; it is True, False, or a function to call after each measurement"
        )
    view = best()
    watched = shown is True or (shown is None and not isinstance(view, Lines))
    return view if watched else Unseen()


def notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` in the kernel of a notebook (where IPython is always imported); elsewhere None."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    return display  # type: ignore[no-any-return,unused-ignore]
