"""Options of a call that concern its line in the trace, and the record of a random variable."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from metasched.errors import ScheduleError
from metasched.ir.integers.affine import free_vars
from metasched.lang.instructions import Decision
from metasched.schedule.context import Context
from metasched.schedule.handlers import Free, Site, out_of_support
from metasched.schedule.primitive import Declaration
from metasched.support.data_classes import dataclass


class Open(Enum):
    """No decision is given: the handler decides."""

    OPEN = "open"


OPEN: Final = Open.OPEN


@dataclass(frozen=True)
class SiteRecord:
    """A random variable met while running: its line in the trace, its distribution and its decision."""

    line: int
    site: Site
    outputs: tuple[str, ...]
    decision: Decision | Free


@dataclass(frozen=True)
class SiteOptions:
    """Keywords of a call besides the arguments: labels; of a sampler, a `name` or whole `address`, and a `decision`."""

    name: str | None = None
    address: str | None = None
    decision: Any = OPEN
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, declaration: Declaration, kwargs: dict[str, Any]) -> SiteOptions:
        """Remove the options from a call's keywords. Raises ScheduleError for one of the wrong kind."""
        if not kwargs:
            return NO_OPTIONS
        labels = kwargs.pop("labels", ())
        if isinstance(labels, str) or not all(isinstance(label, str) and label.isidentifier() for label in labels):
            raise ScheduleError(
                declaration.name, f"labels={labels!r}", hint="give a list of identifiers, one for each result"
            )
        if not declaration.random:
            return cls(labels=tuple(labels))
        name, address = kwargs.pop("name", None), kwargs.pop("address", None)
        for key, value in (("name", name), ("address", address)):
            if value is not None and not (isinstance(value, str) and value):
                raise ScheduleError(declaration.name, f"{key}={value!r}", hint=f"`{key}` is a text that is not empty")
        return cls(name, address, kwargs.pop("decision", OPEN), tuple(labels))


NO_OPTIONS: Final = SiteOptions()


def require_support(ctx: Context, site: Site, decision: Decision) -> None:
    """Raise ScheduleError for a decision out of support; over free variables, that is a constraint on rows."""
    dist: Any = site.dist
    error = out_of_support(site, decision, "change it, or leave it out")
    if dist.structural or not free_vars(dist.extent):
        if not dist.contains(decision):
            raise error
        return
    for condition in dist.conditions(decision):
        ctx.require(condition, error)
