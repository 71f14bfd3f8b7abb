"""Conditions that raise an error where they do not hold: what each file raises, it says once."""

from __future__ import annotations

from collections.abc import Callable


def require_or(error: Callable[[str], Exception]) -> Callable[[bool, str], None]:
    """A function of a condition and a message, which raises the error that is made of the message where the condition
    does not hold.
    """

    def require(holds: bool, message: str) -> None:
        if not holds:
            raise error(message)

    return require
