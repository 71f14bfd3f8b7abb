"""A database's URL as messages print it."""

from __future__ import annotations

from urllib.parse import unquote

# The settings that libpq reads from a URL and that nobody else may.
_SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret"})


def shown_url(url: str) -> str:
    """A URL without its passwords, for messages and reports; it is taken apart as libpq does."""
    scheme, separator, rest = url.partition("://")
    user, at, place = rest.partition("@")
    if not at or "/" in user:  # of what comes later, an @ is no part of who it is
        user, at, place = "", "", rest
    place, mark, query = place.partition("?")
    settings = [setting for setting in query.split("&") if unquote(setting.partition("=")[0]) not in _SECRETS]
    return f"{scheme}{separator}{user.partition(':')[0]}{at}{place}{mark if any(settings) else ''}{'&'.join(settings)}"
