"""What the environment sets: every variable that metasched reads, with what it does; and the database without a URL."""

from __future__ import annotations

import logging

from metasched.errors import MetaschedError
from metasched.support.data_classes import dataclass

# What URLs of SQLite files begin with.
SQLITE = "sqlite:///"
# Where what is measured goes unless somebody says.
DEFAULT_DATABASE = f"{SQLITE}metasched.db"
# One that is gone with the process.
IN_MEMORY = f"{SQLITE}:memory:"


@dataclass(frozen=True)
class EnvironmentVariable:
    """A variable of the environment. `default` says what holds where it is not set; `what` is a sentence."""

    name: str
    default: str
    what: str


CACHE = EnvironmentVariable(
    "METASCHED_CACHE",
    "the platform's folder for caches, such as `~/.cache/metasched`",
    "The folder for what can be made again: tuned kernels of `ms.kernel`, machine code of networks, calibrations.",
)
LOG = EnvironmentVariable(
    "METASCHED_LOG",
    "`warning`",
    "From which level on the command line prints what happens: `debug`, `info`, `warning`, `error`. In Python, set up "
    "the logger `metasched` of the module `logging` instead.",
)
SETTINGS = (CACHE, LOG)

_LOG_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def log_level(given: str | None) -> int:
    """The level that METASCHED_LOG names; that of warnings where it is not set. Raises MetaschedError for no level."""
    if not given:
        return logging.WARNING
    try:
        return _LOG_LEVELS[given.lower()]
    except KeyError:
        raise MetaschedError(f"{LOG.name} is one of {', '.join(_LOG_LEVELS)}, not `{given}`") from None
