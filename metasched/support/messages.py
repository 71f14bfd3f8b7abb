"""Words of messages: a hint, numbers of things, lists of names, and the names that were probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

# How many names are suggested, and how much less alike than the most alike they may be: of `a.blocks`, `a.blocked` is
# meant, and not `a.odd` besides.
_MOST_MEANT = 3
_LESS_ALIKE = 0.1
# Also before letters that are spelt out, as of `ndarray`; not before a `u` as of `uint8`.
_AN = re.compile(r"[aeio]|u(?!int|ni|se)|nd", re.IGNORECASE)


def with_hint(message: str, hint: str) -> str:
    """A message with what to do in a line below it, unless that is ''.

    Nothing else renders hints: errors take theirs as `hint=`, warnings and logs say `with_hint(message, hint)`.
    """
    return f"{message}\n  hint: {hint}" if hint else message


def counted(number: int, singular: str, plural: str = "") -> str:
    """`3 loops`, or `1 loop`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def listing(names: Iterable[object], last: str = "and", none: str = "none", most: int | None = None) -> str:
    """Names in quotes: "`a`, `b` and `c`". After the `most` that are shown it says how many more there are."""
    quoted = [f"`{name}`" for name in names]
    if most is not None and len(quoted) > most:
        quoted = [*quoted[:most], f"{len(quoted) - most} more"]
    return f" {last} ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted) or none


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the known names that are closest to one; '' where none is close.

    One that differs in capitals only is meant for sure.
    """
    names = sorted(set(known))
    close = [other for other in names if other.lower() == name.lower()] or _closest_names(name, names)
    return f"did you mean {listing(close, 'or')}?" if close else ""


def _closest_names(name: str, names: Sequence[str]) -> list[str]:
    alike = {other: _likeness(other, name) for other in get_close_matches(name, names, _MOST_MEANT)}
    return [other for other, ratio in alike.items() if ratio >= max(alike.values()) - _LESS_ALIKE]


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def a_or_an(noun: str) -> str:
    """`a float`, `an int`."""
    return f"{'an' if _AN.match(noun) else 'a'} {noun}"
