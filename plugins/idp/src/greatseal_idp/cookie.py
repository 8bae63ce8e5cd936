"""The session cookie."""

import hashlib
from urllib.parse import urlsplit

from greatseal.api.http import Call
from greatseal.host import Host
from greatseal.http.cookies import clear_cookie, cookie_of, set_cookie
from greatseal_idp.settings import SessionSettings

NAME = "greatseal_session"
KIND = "se"
"""Of the handle that the cookie holds."""


class SessionCookie:
    """Reads and writes the cookie; ``__Host-`` and Secure under an https issuer."""

    def __init__(self, host: Host) -> None:
        self._handles = host.handles
        self._secure = urlsplit(host.issuer).scheme == "https"
        self._ttl = host.settings(SessionSettings).ttl

    def value(self, call: Call) -> str | None:
        """The well-formed value that the call brings, None when there is none."""
        return self.value_in(call.headers.get("Cookie", ""))

    def value_in(self, header: str) -> str | None:
        """As :meth:`value`, of a Cookie header."""
        value = cookie_of(header, NAME, secure=self._secure)
        return value if value is not None and self._handles.node_of(value, KIND) is not None else None

    def mint(self) -> str:
        """A new value: 32 random bytes in a handle."""
        return self._handles.mint(KIND)

    def set(self, value: str) -> tuple[str, str]:
        """The header that gives it to the browser."""
        return set_cookie(NAME, value, max_age=self._ttl, secure=self._secure)

    def clear(self) -> tuple[str, str]:
        """The header that takes it away."""
        return clear_cookie(NAME, secure=self._secure)


def digest_of(value: str) -> bytes:
    """What is stored of a cookie's value: its SHA-256."""
    return hashlib.sha256(value.encode()).digest()
